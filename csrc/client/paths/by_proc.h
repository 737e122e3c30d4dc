/*
 * Outputs that are named by a descriptor: /proc/self/fd/N, /dev/fd/N, /dev/stdout. The kernel would
 * follow these to the real file itself, past its name: a program that writes there would change
 * what is published under everybody's hands.
 */
#ifndef FAN_CLIENT_BY_PROC_H
#define FAN_CLIENT_BY_PROC_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

/* 1: the path names a descriptor of an output, and `name` is the path of that output in its mount.
 * 0: the path is left to the kernel. change: the file is to be written to or changed through it;
 * then also -EROFS for an output that has no name any more, -EIO without a daemon. `path` may be
 * `name`. */
int fan_output_by_proc(const char *path, bool change, char name[PATH_MAX]);

/* The object whose real file a descriptor is, and its name as an absolute path in its mount. 0: it
 * is none, or has no name yet. */
uint64_t fan_output_of_fd(int fd, char name[PATH_MAX]);

#endif
