/*
 * Copies whose faults become errors: the program gave a bad destination, or the disk cannot deliver
 * a page of a mapped pack. fault.c turns the signal into the return value.
 */
#ifndef FAN_CLIENT_COPY_H
#define FAN_CLIENT_COPY_H

#include <stddef.h>

/* Copies `bytes` without overlap. 0, -EFAULT (bad address), or -EIO (the mapping's disk failed).
 * No lock, no allocation; safe in signal handlers. */
int fan_copy(void *to, const void *from, size_t bytes);

/* Reads one byte of each page of `from`, so that a bad page is an error here: for memory that code
 * reads next that cannot handle a fault, such as a decoder. `bytes` > 0. Returns what fan_copy
 * returns. */
int fan_touch(const void *from, size_t bytes);

/* Writes a zero to each page of memory that is about to be overwritten; `bytes` > 0. Returns as
 * fan_copy. */
int fan_blot(void *to, size_t bytes);

#endif
