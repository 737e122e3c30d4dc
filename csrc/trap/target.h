/*
 * The process whose call was caught: its memory, and where its paths begin. All answers are -errno
 * on failure. What is read of it may be another process's by then: fan_call_valid (call.h) tells.
 */
#ifndef FAN_TRAP_TARGET_H
#define FAN_TRAP_TARGET_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* All `bytes` or -EFAULT; -EPERM, -ESRCH where its memory is not ours to touch. */
int fan_target_read(pid_t tid, uint64_t at, void *to, size_t bytes);
int fan_target_write(pid_t tid, uint64_t at, const void *from, size_t bytes);

/* A text of up to PATH_MAX bytes with its NUL. The length; -EFAULT, -ENAMETOOLONG, -EPERM. */
int fan_target_text(pid_t tid, uint64_t at, char to[PATH_MAX]);

/* Where "/proc/TID/`name`" leads, of a directory or file of a mount its path there. The length. */
int fan_target_link(pid_t tid, const char *name, char to[PATH_MAX]);
int fan_target_fd_link(pid_t tid, int fd, char to[PATH_MAX]);

/* Whether what /proc says of a descriptor is of a file that has lost its name. */
static inline bool fan_target_is_nameless(const char *link)
{
    static const char mark[] = " (deleted)";
    size_t bytes = __builtin_strlen(link), mark_bytes = sizeof(mark) - 1;
    return bytes > mark_bytes && __builtin_memcmp(link + bytes - mark_bytes, mark, mark_bytes) == 0;
}

/* `path` of a call as an absolute one: from the working directory (AT_FDCWD) or `dirfd`; the names
 * by which /proc tells a process's own descriptors and directory are looked through, the last one's
 * only when `follow`. The length. "" is dirfd itself. */
int fan_target_absolute(pid_t tid, int dirfd, const char *path, bool follow, char to[PATH_MAX]);

/* A descriptor of this process for what `fd` is in the other one. */
int fan_target_borrow(pid_t tid, int fd);

/* What tells of a process in /proc. */
struct fan_target_status {
    pid_t tgid;
    unsigned umask;
};

int fan_target_status(pid_t tid, struct fan_target_status *status);

#endif
