/* Writes finished files to the disk and gives them their final names. */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* Renames `from` to `to`. With `exchange` the two swap names, in one step if the file system can;
 * otherwise `to` must not exist. Returns 0 or -errno. */
int fan_rename(const char *from, const char *to, int exchange);

/* Starts to write these bytes of a file to its disk, without waiting, so that a sync at the end has
 * little to wait for. A file system may ignore this hint. */
void fan_start_writeback(int fd, uint64_t offset, uint64_t bytes);
/* cffi: end */
