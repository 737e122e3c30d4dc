/*
 * Leads from a redirected system call to syscall(2) of this library and back. For the calling code
 * it behaves as the instruction `syscall`, which changes only rax, rcx and r11.
 */
#ifndef FAN_PRELOAD_RAW_ENTER_H
#define FAN_PRELOAD_RAW_ENTER_H

#include <stdbool.h>

/* The redirected code jumps here, with the call's registers, and in rcx the address at which to
 * continue. */
extern void fan_raw_enter(void);

/* Whether this processor can save the vector registers. */
bool fan_raw_can_enter(void);

#endif
