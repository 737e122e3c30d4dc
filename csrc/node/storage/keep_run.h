/*
 * Bringing records here ahead of their reading, many at once. Short ones are checked and then
 * written; a long one is written piece by piece, checked as it lies there, and only then here.
 */
#ifndef FAN_NODE_KEEP_RUN_H
#define FAN_NODE_KEEP_RUN_H

#include <stdint.h>

struct fan_mounts;

/* Brings `count` records of one pack, rising in it, that lie within FAN_FILL_MAX_BYTES; or just one
 * that is longer. By any thread. 0, -ENOSPC: the disk takes no more, or -errno: some are not here.
 */
int fan_keep_run(struct fan_mounts *mounts, uint32_t mount, const uint64_t *records,
                 uint64_t count);

#endif
