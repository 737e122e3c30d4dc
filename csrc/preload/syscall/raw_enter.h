/*
 * From a redirected system call into syscall(2) of this library and back: to the code that makes it
 * it is the instruction `syscall`, which leaves all but rax, rcx and r11 alone.
 */
#ifndef FAN_PRELOAD_RAW_ENTER_H
#define FAN_PRELOAD_RAW_ENTER_H

#include <stdbool.h>

/* Jumped to with the call's registers, and in rcx where to go on. */
extern void fan_raw_enter(void);

/* Whether this processor can keep the vector registers. */
bool fan_raw_can_enter(void);

#endif
