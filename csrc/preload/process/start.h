/*
 * Starting programs: exec as the kernel does it, for programs and scripts of a mount too.
 */
#ifndef FAN_PRELOAD_START_H
#define FAN_PRELOAD_START_H

#include <stdbool.h>

enum fan_start {
    FAN_START_PATH,        /* the name is a path: execve */
    FAN_START_AT,          /* a path at a descriptor, or the descriptor itself: execveat */
    FAN_START_SEARCH,      /* looked for along PATH: posix_spawnp */
    FAN_START_SEARCH_SHELL /* and a file of unknown format is given to a shell: execvp */
};

struct fan_program {
    enum fan_start how;
    const char *name;
    int dirfd, flags; /* FAN_START_AT */
};

/* Replaces this process, which may be a vfork child. -errno when that fails. */
int fan_start(const struct fan_program *program, char *const argv[], char *const env[]);

#endif
