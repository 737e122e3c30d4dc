/* The arguments of the system calls that are answered (calls.def). */
#ifndef FAN_PRELOAD_ARGUMENTS_H
#define FAN_PRELOAD_ARGUMENTS_H

#include <stdbool.h>

/* A letter for each argument, as calls.def says; "" of a call that is not there. */
const char *fan_call_arguments(long number);

/* Whether --trap catches the call: it has a path. */
bool fan_call_has_path(long number);

/* Whether the call is redirected where loaded code makes it past libc. */
bool fan_call_is_redirected(long number);

#endif
