/*
 * FILE streams over files of a mount. libc's stdio does not call the exported read, which this
 * library intercepts, so a stream is made with fopencookie. The number of its descriptor is stored
 * in the stream, so that fileno returns it.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Makes a stream over a descriptor of ours; the stream closes it. On failure returns NULL and sets
 * errno. */
FILE *fan_stream_make(int fd, const char *mode);

/* Returns whether this library made a stream: whether it is a cookie stream with a descriptor. */
bool fan_stream_is_ours(const FILE *stream);

/* Makes stdin a stream over descriptor 0 if that is a file of ours, unless stdin is one already or
 * has buffered input. */
void fan_stream_take_stdin(void);
