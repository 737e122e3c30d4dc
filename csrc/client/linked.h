/*
 * Symbolic links outside that lead into a mount: the slow road, taken only after the kernel said
 * ENOENT or for a spelling with "..".
 */
#ifndef FAN_CLIENT_LINKED_H
#define FAN_CLIENT_LINKED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the path holds a symbolic link at all: one system call. */
bool fan_linked(int dirfd, const char *path);

/* Resolves components and links with readlink(2) until a mount prefix is reached. true with the
 * mount's path and what was left to go in `to`; false when it ends elsewhere. */
bool fan_linked_path(int dirfd, const char *path, char *to, size_t capacity);

/* The path of an open directory as the kernel knows it, a skeleton's shown as the mount's. The
 * length, or -errno. */
long fan_fd_path(int fd, char *to, size_t capacity);

#endif
