/*
 * Reads the files of a batch into the rows of one array.
 *
 * Reads through libc, so that in a program with the preload library the calls see the mounts.
 */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* Reads `count` whole files into rows of `row_bytes` bytes each, in order. paths: their paths, each
 * ended by a zero byte. Returns how many were read. If these are fewer than `count`, *error is the
 * reason for the next file: an errno, EINTR if a signal arrived, or 0 if it is no regular file of
 * that size. */
uint64_t fan_read_rows(const char *paths, uint64_t count, char *rows, uint64_t row_bytes,
                       int32_t *error);
/* cffi: end */
