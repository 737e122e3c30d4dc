/*
 * Fetches many records at once to this node's disk before they are read. Checks short records and
 * then writes them; writes a long record piece by piece, checks it on the disk, and only then marks
 * it as resident.
 */
#pragma once

#include <stdint.h>

struct fan_mounts;

/* Fetches `count` records of one pack, in ascending order, that span at most FAN_FILL_MAX_BYTES; or
 * a single longer record. Any thread may call it. Returns 0, -ENOSPC if the disk is full, or -errno
 * if some records were not fetched. */
int fan_keep_run(struct fan_mounts *mounts, uint32_t mount, const uint64_t *records,
                 uint64_t count);
