/* The arguments of the system calls that the library answers (calls.def). */
#ifndef FAN_PRELOAD_ARGUMENTS_H
#define FAN_PRELOAD_ARGUMENTS_H

#include <stdbool.h>

/* Returns one letter for each argument, as in calls.def; "" for a call that is not listed. */
const char *fan_call_arguments(long number);

/* Returns whether --trap catches the call: whether it takes a path. */
bool fan_call_has_path(long number);

/* Returns whether the call is redirected if loaded code makes it without libc. */
bool fan_call_is_redirected(long number);

#endif
