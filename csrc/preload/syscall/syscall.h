/*
 * syscall(2) by number: passes calls on our files to the intercepted function of the same call.
 */
#pragma once

#include <stdbool.h>

struct fan_arguments {
    long a, b, c, d, e, f;
};

/* Answers any call, in a process with mounts. Returns -1 and sets errno on failure. */
long fan_syscall_answer(long number, const struct fan_arguments *x);

/* Is io_submit(2), but turns reads of inputs into reads of memory. Returns how many entries it
 * accepted, or -errno. */
long fan_submit(long context, long count, void *list);

/* Returns one letter for each argument of a system call that the library answers, as in calls.def;
 * "" for any other. */
const char *fan_call_arguments(long number);

/* Returns whether --trap catches the call: whether it takes a path. */
bool fan_call_has_path(long number);

/* Returns whether the call is redirected if loaded code makes it without libc. */
bool fan_call_is_redirected(long number);
