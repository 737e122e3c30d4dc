/*
 * Follows symbolic links outside the mounts that lead into one. Slow; used only after the kernel
 * answered ENOENT, for paths with "..", and before calls that would change something.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns whether the path contains a symbolic link. Makes one system call. */
bool fan_linked(int dirfd, const char *path);

/* Returns whether a path outside may lead into a mount: through a symbolic link (a link at the end
 * counts only if `follow`), or because the path starts from an open directory in or above a mount.
 * Makes one or two system calls. */
bool fan_may_lead_in(int dirfd, const char *path, bool follow);

/* Makes a relative path absolute: puts the path of its starting directory in front, as the kernel
 * gives it. An absolute path stays as it is. Returns 0 or -errno. */
int fan_absolute_path(int dirfd, const char *path, char *to, size_t capacity);

/* Resolves components and links with readlink(2), a link at the end only if `follow`, until it
 * reaches a mount prefix. Returns true if it reaches one: `to` holds the path in the mount, with
 * the unresolved rest. Returns false if the path ends elsewhere. */
bool fan_linked_path(int dirfd, const char *path, bool follow, char *to, size_t capacity);

/* Returns the kernel's path of an open directory; shows a skeleton's path as the mount's. Returns
 * the length, or -errno. */
long fan_fd_path(int fd, char *to, size_t capacity);

/* Like fan_fd_path, but leaves a skeleton's path unchanged. */
long fan_fd_path_real(int fd, char *to, size_t capacity);

/* Returns whether a descriptor is certainly not of a directory that lies in a mount or a skeleton,
 * or above a mount. false means that this is not certain. Makes one system call: looks at the
 * attributes of the directory and not at its path, which costs the kernel eight times as much. */
bool fan_is_far_fd(int fd);
