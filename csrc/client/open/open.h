/*
 * Opening a file of the mount.
 */
#ifndef FAN_CLIENT_OPEN_H
#define FAN_CLIENT_OPEN_H

#include "../files/filetable.h"
#include "../paths/resolve.h"

/* open(2) of a target that was located with the flags of fan_open_resolve (not FAN_OUTSIDE). May
 * resolve the target again. `mode` before the umask. Returns a descriptor, or -errno. */
int fan_open(struct fan_target *target, int flags, unsigned mode);

/* Makes a real copy (realcopy.h) of the input that is the target, which must be readable. Returns a
 * descriptor, close-on-exec, or -errno. */
int fan_open_copy(struct fan_target *target);

/* Call it after the kernel opened a directory outside. Notes the directory if it lies above a mount
 * or, through a link, inside one. Returns whether it lies inside one. */
bool fan_open_noticed(int fd, int flags);

#endif
