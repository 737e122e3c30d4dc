/*
 * Works on the text of paths: components, unusual spellings, descriptors named by /proc. Makes no
 * system call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool fan_is_dot(const char *name, size_t bytes)
{
    return bytes == 1 && name[0] == '.';
}

static inline bool fan_is_dot_dot(const char *name, size_t bytes)
{
    return bytes == 2 && name[0] == '.' && name[1] == '.';
}

/* Returns the end of the component that begins at `p`. */
static inline const char *fan_component_end(const char *p)
{
    return strchrnul(p, '/');
}

/* Returns whether there is a "//", or a "/" before a component that begins with a dot. */
bool fan_has_odd_part(const char *path, size_t bytes);

bool fan_has_dot_dot(const char *path);

/* Appends a path to the first `*end` bytes of `to`, without "//", "/./" and "/x/.." (does not look
 * at links). Sets *end to the new length, and *above if a ".." would have led above the path's
 * start. Returns false if the result does not fit. */
bool fan_append_normal(const char *path, char *to, size_t *end, size_t capacity, bool *above);

/* Removes "//", "/./" and "/x/.." from an absolute path (does not look at links). Returns -1 if the
 * result does not fit. */
int fan_normalise(const char *path, char *to, size_t capacity);

/* Writes `head` "/" `tail` to `to`, which may already contain `tail`; `head` may be empty. Returns
 * false if the result does not fit. */
bool fan_join(char *to, size_t capacity, const char *head, size_t head_bytes, const char *tail);

/* Returns the descriptor of this process that "/proc/self/fd/N", "/proc/PID/fd/N", "/dev/fd/N",
 * "/dev/stdin" ... names, or -1. */
int fan_proc_fd(const char *path);
