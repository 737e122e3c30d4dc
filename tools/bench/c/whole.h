/* Functions of the programs that read whole files with ordinary system calls. They know nothing of
 * FanStore. */
#pragma once

#include <stddef.h>

enum { THREADS_MAX = 64, FILE_BYTES_MAX = 8 << 20 };

/* Returns memory whose pages are there already. Ends the process if there is none. */
void *allocate(size_t bytes);

/* Opens a file, asks for its size, reads it with one call and closes it. Returns the nanoseconds.
 * Ends the process if that fails. */
double read_whole(const char *path, char *buffer);

/* Runs `routine` on threads, each with a buffer of FILE_BYTES_MAX. Returns the nanoseconds until
 * all have returned. */
double on_threads(unsigned threads, void *(*routine)(void *buffer));

/* Sorts durations, and prints their median and 99th percentile. */
void print_durations(double *took_ns, size_t count);
