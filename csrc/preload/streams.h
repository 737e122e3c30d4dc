/* FILE streams over files of the mount. */
#ifndef FAN_PRELOAD_STREAMS_H
#define FAN_PRELOAD_STREAMS_H

#include <stdbool.h>
#include <stdio.h>

struct fan_target;

/* Whether a stream was made here: a cookie stream with a descriptor. */
bool fan_stream_is_ours(const FILE *stream);

/* When descriptor 0 is a file of ours, makes stdin a stream over it, unless it is one or still holds
 * what was read before. */
void fan_stream_take_stdin(void);

/* A real file with the content of an input, by a path that libc can open in fopen(3)'s `mode`; or
 * the output itself. A descriptor, which must outlive the path's use, or -errno. */
enum { FAN_REAL_PATH_BYTES = 40 };
int fan_stream_real(struct fan_target *target, const char *mode, char path[FAN_REAL_PATH_BYTES]);

#endif
