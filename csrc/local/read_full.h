/* Reads or writes all bytes: repeats pread(2) and pwrite(2), also after signals. */
#pragma once

#include <stdint.h>

/* Returns 0, or -EIO after an error or if the file is too short. */
int fan_read_full(int fd, void *to, uint64_t offset, uint64_t bytes);

/* Returns 0 or -errno: -ENOSPC, -EDQUOT, -EFBIG, -EIO. */
int fan_write_full(int fd, const void *from, uint64_t offset, uint64_t bytes);
