/*
 * Reads and writes the memory of the process whose call was caught, and resolves its paths. All
 * functions return -errno on failure. The process may have ended, and another may have its number:
 * check with fan_call_valid (call.h) after reading.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Copy all `bytes` bytes, or return -EFAULT; -EPERM or -ESRCH if the process's memory may not be
 * accessed. */
int fan_target_read(pid_t tid, uint64_t at, void *to, size_t bytes);
int fan_target_write(pid_t tid, uint64_t at, const void *from, size_t bytes);

/* Reads a text of up to PATH_MAX bytes with its NUL. Returns the length; -EFAULT, -ENAMETOOLONG,
 * -EPERM. */
int fan_target_text(pid_t tid, uint64_t at, char to[PATH_MAX]);

/* Reads the link "/proc/TID/`name`"; for a directory or file of a mount, gives its path there.
 * Returns the length. */
int fan_target_link(pid_t tid, const char *name, char to[PATH_MAX]);
int fan_target_fd_link(pid_t tid, int fd, char to[PATH_MAX]);

/* Returns whether a link of /proc shows that the file of a descriptor has lost its name. */
static inline bool fan_target_is_nameless(const char *link)
{
    static const char mark[] = " (deleted)";
    size_t bytes = __builtin_strlen(link), mark_bytes = sizeof(mark) - 1;
    return bytes > mark_bytes && __builtin_memcmp(link + bytes - mark_bytes, mark, mark_bytes) == 0;
}

/* Makes a call's `path` absolute, from the working directory (AT_FDCWD) or `dirfd`; "" means dirfd
 * itself. Replaces links in /proc to a process's descriptors and directories by their targets, at
 * the end of the path only if `follow`. Returns the length. */
int fan_target_absolute(pid_t tid, int dirfd, const char *path, bool follow, char to[PATH_MAX]);

/* Duplicates descriptor `fd` of the other process into this one. */
int fan_target_borrow(pid_t tid, int fd);

/* The fields that are used of a process's status in /proc. */
struct fan_target_status {
    pid_t tgid;
    unsigned umask;
};

int fan_target_status(pid_t tid, struct fan_target_status *status);
