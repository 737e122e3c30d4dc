/*
 * Files of ours made real: for what needs a file of the kernel's. The copy lies in memory, one of
 * more than 256 MiB on the local disk, and goes with its last descriptor.
 */
#ifndef FAN_CLIENT_REALCOPY_H
#define FAN_CLIENT_REALCOPY_H

#include "resolve.h"

struct fan_file;

/* A descriptor, open for reading at the start, of a file with the content of `file`. Close-on-exec.
 * Or -errno: -EFBIG (RLIMIT_FSIZE), -ENOSPC, -ENOMEM, -EIO. Allocates nothing; safe in a vfork
 * child. */
int fan_real_copy(struct fan_file *file);

/* The same of a path's target, which must be readable. */
int fan_real_copy_of(struct fan_target *target);

#endif
