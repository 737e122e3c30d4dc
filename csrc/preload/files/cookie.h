/*
 * FILE streams over files of the mount. libc's stdio does not call the exported read, which we
 * intercept, so a stream is made with fopencookie. Its descriptor's number is stored in it, so that
 * fileno returns it.
 */
#ifndef FAN_PRELOAD_COOKIE_H
#define FAN_PRELOAD_COOKIE_H

#include <stdbool.h>
#include <stdio.h>

/* Makes a stream over a descriptor of ours; the stream closes it. On failure returns NULL and sets
 * errno. */
FILE *fan_stream_make(int fd, const char *mode);

/* Whether a stream was made here: it is a cookie stream with a descriptor. */
bool fan_stream_is_ours(const FILE *stream);

/* If descriptor 0 is a file of ours, makes stdin a stream over it, unless stdin is one already or
 * still holds buffered input. */
void fan_stream_take_stdin(void);

#endif
