/*
 * Starts programs: does what exec does in the kernel, also for programs and scripts of a mount.
 */
#pragma once

enum fan_start {
    FAN_START_PATH,        /* execve: the name is a path */
    FAN_START_AT,          /* execveat: a path relative to a descriptor, or the descriptor itself */
    FAN_START_SEARCH,      /* posix_spawnp: search along PATH */
    FAN_START_SEARCH_SHELL /* execvp: and run a file of unknown format with a shell */
};

struct fan_program {
    enum fan_start how;
    const char *name;
    int dirfd, flags; /* for FAN_START_AT */
};

/* Replaces this process, which may be a vfork child. Returns -errno on failure. */
int fan_start(const struct fan_program *program, char *const argv[], char *const env[]);
