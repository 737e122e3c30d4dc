/*
 * Symbolic links outside that lead into a mount: the slow road, taken only after the kernel said
 * ENOENT, for a spelling with "..", and before a call that would change something.
 */
#ifndef FAN_CLIENT_LINKED_H
#define FAN_CLIENT_LINKED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the path holds a symbolic link at all: one system call. */
bool fan_linked(int dirfd, const char *path);

/* Whether a path outside may lead into a mount: through a symbolic link (the last component's only
 * when `follow`), or from an open directory in or above one. One or two system calls. */
bool fan_may_lead_in(int dirfd, const char *path, bool follow);

/* Puts the directory that a relative path begins in, as the kernel knows it, in front of the path.
 * An absolute path stays as it is. 0 or -errno. */
int fan_absolute_path(int dirfd, const char *path, char *to, size_t capacity);

/* Resolves components and links with readlink(2), the last component's only when `follow`, until a
 * mount prefix is reached. true with the mount's path and what was left to go in `to`; false when
 * it ends elsewhere. */
bool fan_linked_path(int dirfd, const char *path, bool follow, char *to, size_t capacity);

/* The path of an open directory as the kernel knows it, a skeleton's shown as the mount's. The
 * length, or -errno. */
long fan_fd_path(int fd, char *to, size_t capacity);

/* The same as it is. */
long fan_fd_path_real(int fd, char *to, size_t capacity);

#endif
