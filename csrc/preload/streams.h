/* FILE streams over files of the mount. */
#ifndef FAN_PRELOAD_STREAMS_H
#define FAN_PRELOAD_STREAMS_H

#include <stdbool.h>
#include <stdio.h>

/* Whether a stream was made here: a cookie stream with a descriptor. */
bool fan_stream_is_ours(const FILE *stream);

/* When descriptor 0 is a file of ours, makes stdin a stream over it, unless it is one or still holds
 * what was read before. */
void fan_stream_take_stdin(void);

#endif
