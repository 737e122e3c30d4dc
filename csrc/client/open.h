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

/* How open(2) with these flags resolves its path: for fan_locate. */
static inline unsigned fan_open_resolve(int flags)
{
    bool exclusive = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    return ((flags & O_NOFOLLOW) || exclusive ? FAN_NOFOLLOW : 0u) |
           (fan_open_changes(flags) ? FAN_THROUGH | FAN_CHANGE : FAN_DEFER);
}

/* open(2) of a target that fan_open_resolve's flags found (not FAN_OUTSIDE); it may be resolved
 * anew. `mode` before the umask. A descriptor, or -errno. */
int fan_open(struct fan_target *target, int flags, unsigned mode);

/* After the kernel opened a directory outside: notes it when it is above a mount or, by a link,
 * inside one. Whether it is inside one. */
bool fan_open_noticed(int fd, int flags);

/* What a call that would change the target answers, an input or missing, as -errno: inputs lie on a
 * read-only file system. `exclusive`: the call makes a new name (mkdir, symlink, link, O_EXCL). */
int fan_refuse_change(const struct fan_target *target, bool exclusive);

#endif
