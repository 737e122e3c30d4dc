/* Answers each caught call. */
#pragma once

#include "call.h"

/* Larger than the number of any call. */
enum { FAN_CALL_NUMBERS = 512 };

/* Returns whether to catch calls of this number. */
bool fan_is_caught(long number);

/* Answers a caught call. */
long fan_handle(const struct fan_call *call);

/* Answers open and similar calls, with a descriptor. */
long fan_handle_open(const struct fan_call *call);

/* Answer chdir and execve: make real names, with which the kernel does the call. */
long fan_handle_chdir(const struct fan_call *call);
long fan_handle_execve(const struct fan_call *call);

/* The paths of a call, one or two. */
struct fan_spots {
    unsigned count;
    struct fan_spot spot[2];
};

/* Finds the paths of a call. Returns whether one of them leads into a mount; if not, let the kernel
 * do the call. */
bool fan_run_find(const struct fan_call *call, struct fan_spots *spots);

/* Answers a call with a path in the way in which the library answers it (preload/calls.def), with
 * absolute paths and buffers of this process in place of the caller's. */
long fan_run(const struct fan_call *call);

/* Answers a call with one path, which the caller of this function has resolved to `path` in a
 * mount. */
long fan_run_of(const struct fan_call *call, char *path);
