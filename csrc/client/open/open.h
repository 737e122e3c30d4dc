/*
 * Opening a file of the mount.
 */
#ifndef FAN_CLIENT_OPEN_H
#define FAN_CLIENT_OPEN_H

#include "../files/filetable.h"
#include "../paths/resolve.h"

/* open(2) of a target that fan_open_resolve's flags found (not FAN_OUTSIDE); it may be resolved
 * anew. `mode` before the umask. A descriptor, or -errno. */
int fan_open(struct fan_target *target, int flags, unsigned mode);

/* A real copy (realcopy.h) of an input that a path's target is, which must be readable. A
 * descriptor, closed on exec, or -errno. */
int fan_open_copy(struct fan_target *target);

/* After the kernel opened a directory outside: notes it when it is above a mount or, by a link,
 * inside one. Whether it is inside one. */
bool fan_open_noticed(int fd, int flags);

#endif
