/*
 * Runs a caught call in the way in which the library answers it (preload/calls.def), with absolute
 * paths and buffers of this process in place of the caller's.
 */
#ifndef FAN_TRAP_RUN_H
#define FAN_TRAP_RUN_H

#include "call.h"

/* The paths of a call, one or two. */
struct fan_spots {
    unsigned count;
    struct fan_spot spot[2];
};

/* Finds the paths of a call. Returns whether one leads into a mount; false: let the kernel do the
 * call. */
bool fan_run_find(const struct fan_call *call, struct fan_spots *spots);

/* Answers a call with a path. */
long fan_run(const struct fan_call *call);

/* Answers a call with one path, which the caller has resolved to `path` of a mount. */
long fan_run_of(const struct fan_call *call, char *path);

#endif
