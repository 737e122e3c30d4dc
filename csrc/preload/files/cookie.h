/*
 * FILE streams over files of the mount. libc's stdio never passes through its own exported read, so
 * a stream is made with fopencookie; its descriptor number is entered, so that fileno answers it.
 */
#ifndef FAN_PRELOAD_COOKIE_H
#define FAN_PRELOAD_COOKIE_H

#include <stdbool.h>
#include <stdio.h>

/* A stream over a descriptor of ours, which it closes; NULL and errno. */
FILE *fan_stream_make(int fd, const char *mode);

/* Whether a stream was made here: a cookie stream with a descriptor. */
bool fan_stream_is_ours(const FILE *stream);

/* When descriptor 0 is a file of ours, makes stdin a stream over it, unless it is one or still
 * holds what was read before. */
void fan_stream_take_stdin(void);

#endif
