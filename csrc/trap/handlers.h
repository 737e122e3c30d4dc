/* Answers each caught call. */
#ifndef FAN_TRAP_HANDLERS_H
#define FAN_TRAP_HANDLERS_H

#include "call.h"

/* Greater than the number of any call. */
enum { FAN_CALL_NUMBERS = 512 };

/* Whether to catch calls of this number. */
bool fan_is_caught(long number);

/* Answers a caught call. */
long fan_handle(const struct fan_call *call);

/* Answers open and similar calls, with a descriptor. */
long fan_handle_open(const struct fan_call *call);

/* Answer chdir and execve: they make real names, with which the kernel does the call. */
long fan_handle_chdir(const struct fan_call *call);
long fan_handle_execve(const struct fan_call *call);

#endif
