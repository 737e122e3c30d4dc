/*
 * Changes of names and attributes under a mount: one question to the node daemon each, which
 * decides all that an input does not decide here. As resolve.h, nothing allocates or locks.
 */
#ifndef FAN_CLIENT_CHANGE_H
#define FAN_CLIENT_CHANGE_H

#include <stdbool.h>
#include <time.h>

#include "outputs.h"

/* One operation on one path. `call` says what is to be done, its mode before the umask; path, view
 * and how are filled in. false: outside, for the real call with target->dirfd and target->path.
 * true: `*rc` is 0 or -errno; where the target is FAN_INPUT or FAN_MISSING, what a read-only file
 * system answers. */
bool fan_output_change(int dirfd, const char *path, unsigned flags, struct fan_output_call *call,
                       struct fan_target *target, int *rc);

/* The umask of this thread. */
unsigned fan_umask(void);

/* What a call that would change the target answers, an input or missing, as -errno: inputs lie on a
 * read-only file system. `exclusive`: the call makes a new name (mkdir, symlink, link, O_EXCL). */
int fan_refuse_change(const struct fan_target *target, bool exclusive);

/* What an operation answers on an input, or on a path that leads nowhere: as on a read-only file
 * system. -errno. */
int fan_output_refuse(const struct fan_target *target, unsigned op);

/* Puts what utimensat(2) is given into a CHANGE: NULL is now. 0, or -EINVAL. */
int fan_output_set_times(struct fan_output_call *call, const struct timespec times[2]);

/* The kernel has changed the attributes of a descriptor, which may be that of an output. */
void fan_output_refresh(int fd);

/* Whether a descriptor is that of a directory of outputs: a skeleton's, whose own attributes mean
 * nothing. */
bool fan_output_is_directory(int fd);

/* One operation on such a directory. As fan_output_change; false: it is a mount's no more. */
bool fan_output_change_directory(int fd, struct fan_output_call *call, int *rc);

#endif
