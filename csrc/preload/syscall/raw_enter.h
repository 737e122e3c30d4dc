/*
 * Leads from a redirected system call to syscall(2) of this library and back. For the calling code
 * it behaves like the instruction `syscall`, which changes only rax, rcx and r11.
 */
#ifndef FAN_PRELOAD_RAW_ENTER_H
#define FAN_PRELOAD_RAW_ENTER_H

#include <stdbool.h>

/* Redirected code jumps here, with the call's registers, and with the address at which to continue
 * in rcx. */
extern void fan_raw_enter(void);

/* Returns whether this processor can save the vector registers. */
bool fan_raw_can_enter(void);

#endif
