/* What the clients calls_stdio_*.c share. */
#pragma once

#include "calls.h"

static __attribute__((unused)) void show_stream(const char *label, FILE *file)
{
    int code = errno;
    if (file == NULL) {
        SHOW("%s: %s", label, strerrorname_np(code));
        return;
    }
    char text[41] = {0};
    errno = 0;
    size_t got = fread(text, 1, 40, file);
    SHOW("%s: %zu %s eof %d error %d at %ld", label, got, text, feof(file), ferror(file), ftell(file));
    TELL(fclose(file));
}

/* What a stream gives first, and how it closes; or why there is none. */
#define STREAMS(CALL) (errno = 0, show_stream(#CALL, CALL))
