/* How each caught call is answered. */
#ifndef FAN_TRAP_HANDLERS_H
#define FAN_TRAP_HANDLERS_H

#include "call.h"

/* Numbers of all calls are below. */
enum { FAN_CALL_NUMBERS = 512 };

/* Whether calls of this number are to be caught. */
bool fan_is_caught(long number);

/* Answers a caught call. */
long fan_handle(const struct fan_call *call);

/* open and its kin: a descriptor is given. */
long fan_handle_open(const struct fan_call *call);

/* Where a process stands and what it becomes: names are made for the kernel. */
long fan_handle_chdir(const struct fan_call *call);
long fan_handle_execve(const struct fan_call *call);

#endif
