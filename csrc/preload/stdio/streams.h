/* A real file for what libc opens by itself. */
#ifndef FAN_PRELOAD_STREAMS_H
#define FAN_PRELOAD_STREAMS_H

struct fan_target;

/* A real file with the content of an input, by a path that libc can open in fopen(3)'s `mode`; or
 * the output itself. A descriptor, which must outlive the path's use, or -errno. */
enum { FAN_REAL_PATH_BYTES = 40 };
int fan_stream_real(struct fan_target *target, const char *mode, char path[FAN_REAL_PATH_BYTES]);

#endif
