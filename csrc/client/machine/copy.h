/*
 * Copies whose faults become errors: a destination that the program got wrong, or a page of a
 * mapped pack that its disk cannot give. fault.c turns the signal into the return value.
 */
#ifndef FAN_CLIENT_COPY_H
#define FAN_CLIENT_COPY_H

#include <stddef.h>

/* Copies `bytes` without overlap. 0, -EFAULT (bad address), or -EIO (the mapping's disk failed).
 * No lock, no allocation; safe in signal handlers. */
int fan_copy(void *to, const void *from, size_t bytes);

/* Looks at each page of memory that is about to be read by code that cannot bear a fault;
 * `bytes` > 0. As fan_copy. */
int fan_touch(const void *from, size_t bytes);

/* Puts a zero on each page of memory that is about to be overwritten; `bytes` > 0. As fan_copy. */
int fan_blot(void *to, size_t bytes);

#endif
