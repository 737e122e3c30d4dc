/* What the clients calls_paths_*.c share. */
#pragma once

#include "calls.h"

static __attribute__((unused)) void show_open(const char *label, int fd)
{
    int code = errno;
    if (fd < 0) {
        SHOW("%s: %s", label, strerrorname_np(code));
        return;
    }
    show_next(label, fd);
    close(fd);
}

/* What the descriptor that a call opens gives first, or why it opens none. */
#define OPENS(CALL) (errno = 0, show_open(#CALL, CALL))
