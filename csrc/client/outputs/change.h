/*
 * Changes names and attributes under a mount. Each change is one question to the node daemon,
 * unless the target is an input, whose answer is known here, or lies in this rank's tree, where the
 * real call does it. Nothing allocates or locks.
 */
#ifndef FAN_CLIENT_CHANGE_H
#define FAN_CLIENT_CHANGE_H

#include <stdbool.h>
#include <time.h>

#include "outputs.h"

/* Does one operation on one path. `call` describes it, with the mode before the umask; this
 * function fills in path, view and how. false: make the real call with target->dirfd and
 * target->path. true: `*rc` is 0 or -errno; for a FAN_INPUT or FAN_MISSING target, the error of a
 * read-only file system. */
bool fan_output_change(int dirfd, const char *path, unsigned flags, struct fan_output_call *call,
                       struct fan_target *target, int *rc);

/* The umask of this thread. */
unsigned fan_umask(void);

/* The -errno of a call that would change the target, which is an input or missing: that of a
 * read-only file system. exclusive: the call makes a new name (mkdir, symlink, link, O_EXCL). */
int fan_refuse_change(const struct fan_target *target, bool exclusive);

/* The -errno of an operation on an input or a missing path: that of a read-only file system. */
int fan_output_refuse(const struct fan_target *target, unsigned op);

/* Puts the times that utimensat(2) is given into a CHANGE; NULL means now. Returns 0, or -EINVAL.
 */
int fan_output_set_times(struct fan_output_call *call, const struct timespec times[2]);

/* Call it after the kernel has changed the attributes of a descriptor, which may be an output's. */
void fan_output_refresh(int fd);

/* Whether a descriptor is that of an output directory: of a real directory that stands for it and
 * whose own attributes mean nothing. */
bool fan_output_is_directory(int fd);

/* Does one operation on such a directory. As fan_output_change; false: it belongs to no mount any
 * more. */
bool fan_output_change_directory(int fd, struct fan_output_call *call, int *rc);

#endif
