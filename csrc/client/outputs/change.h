/*
 * Changes names and attributes under a mount. Each change is one request to the node daemon, except
 * for an input, whose answer is known here, and for a file in this rank's tree, where the real call
 * makes the change. No function allocates or takes a lock.
 */
#pragma once

#include <stdbool.h>
#include <time.h>

#include "outputs.h"

/* Does one operation on one path. `call` describes it, with the mode before the umask; this
 * function fills in path, view and how. Returns false if the caller must make the real call with
 * target->dirfd and target->path. Returns true if the operation is done: `*rc` is 0 or -errno; for
 * a FAN_INPUT or FAN_MISSING target, the error of a read-only file system. */
bool fan_output_change(int dirfd, const char *path, unsigned flags, struct fan_output_call *call,
                       struct fan_target *target, int *rc);

/* Returns the umask of this thread. */
unsigned fan_umask(void);

/* Counts a call that fails with EROFS because it would change `target`. Notes the first such input
 * of this process for the end of the job. */
void fan_count_refused(const struct fan_target *target);

/* Returns the -errno of a call that would change a target which is an input or missing: that of a
 * read-only file system. exclusive: the call makes a new name (mkdir, symlink, link, O_EXCL). */
int fan_refuse_change(const struct fan_target *target, bool exclusive);

/* Returns the -errno of an operation on an input or a missing path: that of a read-only file
 * system. */
int fan_output_refuse(const struct fan_target *target, unsigned op);

/* Call it after the kernel removed a FAN_TREE target, or renamed it to `renamed` (else NULL).
 * pointers: fan_tree_pointers() before the target was located. Another rank may have got the name
 * after it was found to be this rank's own, and then the kernel has removed or renamed that rank's
 * pointer: the daemon does the same with the file. Changes both targets. */
void fan_output_settle(uint64_t pointers, struct fan_target *target, struct fan_target *renamed);

/* Writes the times that utimensat(2) is given to a CHANGE request; NULL means now. Returns 0, or
 * -EINVAL. */
int fan_output_set_times(struct fan_output_call *call, const struct timespec times[2]);

/* Call it after the kernel has changed the attributes of a descriptor, which may be an output's. */
void fan_output_refresh(int fd);

/* Returns whether a descriptor is of a real directory that stands for an output directory. The
 * attributes of such a real directory mean nothing. */
bool fan_output_is_directory(int fd);

/* Does one operation on such a directory, like fan_output_change. Returns false if the directory no
 * longer belongs to a mount. */
bool fan_output_change_directory(int fd, struct fan_output_call *call, int *rc);
