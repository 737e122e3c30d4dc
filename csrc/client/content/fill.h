/*
 * The content of an open input into a real file.
 */
#ifndef FAN_CLIENT_FILL_H
#define FAN_CLIENT_FILL_H

#include <stdint.h>

struct fan_file;

/* Writes `bytes` of `from`, which lie inside it from `offset` on, to the new, empty file `to`. 0 or
 * -errno: -EFBIG (RLIMIT_FSIZE), -ENOSPC, -EDQUOT, -ENOMEM, -EIO. Allocates nothing; safe in signal
 * handlers and in a vfork child. */
int fan_fill(int to, struct fan_file *from, int64_t offset, uint64_t bytes);

#endif
