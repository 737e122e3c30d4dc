/*
 * The files of a batch, read into the rows of one array.
 *
 * The calls are libc's: in a program that FanStore got into, they see its mounts.
 */
#ifndef FAN_BATCH_ROWS_H
#define FAN_BATCH_ROWS_H

#include <stdint.h>

/* cffi: begin */
/* Reads `count` whole files into rows of `row_bytes` bytes each, one after the other. paths: their
 * paths, each ended by a zero byte. Returns how many were read. Where these are fewer than `count`,
 * *error is why the next was not: an errno, EINTR where a signal came first, or 0 where it is no
 * regular file of that size. */
uint64_t fan_read_rows(const char *paths, uint64_t count, char *rows, uint64_t row_bytes,
                       int32_t *error);
/* cffi: end */

#endif
