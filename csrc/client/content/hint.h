/*
 * Passes on a program's own hints about its next reads (posix_fadvise(2), readahead(2)): to the
 * kernel for bytes on a disk, to the node daemon for bytes that must come from elsewhere. A hint
 * never waits, and may be dropped.
 */
#ifndef FAN_CLIENT_HINT_H
#define FAN_CLIENT_HINT_H

#include <stdint.h>

struct fan_file;

/* Hints at `bytes` of a regular file from `offset` on; 0 means all up to its end. */
void fan_hint(struct fan_file *file, int64_t offset, int64_t bytes);

#endif
