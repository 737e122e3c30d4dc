/*
 * Starts programs: does exec as the kernel does, but also for programs and scripts of a mount.
 */
#ifndef FAN_PRELOAD_START_H
#define FAN_PRELOAD_START_H

#include <stdbool.h>

enum fan_start {
    FAN_START_PATH,        /* the name is a path: execve */
    FAN_START_AT,          /* a path at a descriptor, or the descriptor itself: execveat */
    FAN_START_SEARCH,      /* search PATH: posix_spawnp */
    FAN_START_SEARCH_SHELL /* and give a file of unknown format to a shell: execvp */
};

struct fan_program {
    enum fan_start how;
    const char *name;
    int dirfd, flags; /* FAN_START_AT */
};

/* Replaces this process, which may be a vfork child. Returns -errno on failure. */
int fan_start(const struct fan_program *program, char *const argv[], char *const env[]);

#endif
