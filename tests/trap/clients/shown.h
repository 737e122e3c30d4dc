/* What the clients print: a line for each call, the same on a plain directory and on a mount. */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *root; /* shown as ROOT */

static inline const char *below(const char *name)
{
    static char texts[4][4096];
    static int next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof(texts[0]), "%s/%s", root, name);
    return text;
}

static inline void show_text(const char *what, const char *text, long bytes)
{
    size_t length = strlen(root);
    char own[8192];
    if (bytes < 0)
        bytes = 0;
    memcpy(own, text, (size_t)bytes);
    own[bytes] = '\0';
    if (strncmp(own, root, length) == 0)
        printf("%s: ROOT%s\n", what, own + length);
    else
        printf("%s: %s\n", what, own);
}

/* A system call's outcome: descriptors, whose numbers differ by nothing, are shown as they are. */
static inline long show(const char *what, long rc)
{
    printf("%s: %ld %s\n", what, rc, rc < 0 ? strerror(errno) : "");
    return rc;
}

#define SYS(name, ...) show(#name " " #__VA_ARGS__, syscall(SYS_##name, __VA_ARGS__))
