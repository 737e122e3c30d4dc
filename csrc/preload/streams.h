/* Streams that the preload makes for itself. */
#ifndef FAN_PRELOAD_STREAMS_H
#define FAN_PRELOAD_STREAMS_H

#include <stdio.h>

/* A stream for standard input when it is a file of a mount, handed on through exec; else NULL. */
FILE *fan_stream_stdin(void);

#endif
