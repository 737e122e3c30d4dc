/*
 * Opening a file of the mount.
 */
#ifndef FAN_CLIENT_OPEN_H
#define FAN_CLIENT_OPEN_H

#include "filetable.h"
#include "resolve.h"

/* Whether open(2) with these flags would make or change something, or let its caller do so. */
static inline bool fan_open_changes(int flags)
{
    return (flags & O_PATH) == 0 &&
           ((flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY);
}

/* open(2) of a resolved target (not FAN_OUTSIDE). A descriptor, or -errno as the kernel gives it
 * on a file system mounted read-only. */
int fan_open(const struct fan_target *target, int flags);

/* After the kernel opened a directory outside: notes it when it is above a mount or, by a link,
 * inside one. Whether it is inside one. */
bool fan_open_noticed(int fd, int flags);

/* What a call that would change the target answers on a read-only file system, as -errno.
 * `exclusive`: the call makes a new name (mkdir, symlink, link, O_EXCL). */
int fan_refuse_change(const struct fan_target *target, bool exclusive);

#endif
