/*
 * Copies memory, and turns a fault into an error: the program gave a bad destination, or the disk
 * cannot deliver a page of a mapped pack. The signal handler in fault.c makes the copy return the
 * error.
 */
#pragma once

#include <stddef.h>

/* Copies `bytes` bytes to memory that does not overlap. Returns 0, -EFAULT (bad address), or -EIO
 * (the mapping's disk failed). Takes no lock and does not allocate; safe in signal handlers. */
int fan_copy(void *to, const void *from, size_t bytes);

/* Reads one byte of each page of `from`, so that a bad page is an error here. Call it before other
 * code, such as a decoder, reads memory and could not handle a fault. `bytes` > 0. Returns what
 * fan_copy returns. */
int fan_touch(const void *from, size_t bytes);

/* Writes a zero to each page of memory that is about to be overwritten; `bytes` > 0. Returns what
 * fan_copy returns. */
int fan_blot(void *to, size_t bytes);
