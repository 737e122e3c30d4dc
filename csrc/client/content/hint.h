/*
 * What a program will read soon, as it says itself (posix_fadvise(2), readahead(2)): the kernel is
 * told of what lies on a disk, the node daemon of what would have to come from elsewhere. A hint
 * waits for nothing, and may be forgotten.
 */
#ifndef FAN_CLIENT_HINT_H
#define FAN_CLIENT_HINT_H

#include <stdint.h>

struct fan_file;

/* A regular file's bytes from `offset` on; `bytes` 0: all to its end. */
void fan_hint(struct fan_file *file, int64_t offset, int64_t bytes);

#endif
