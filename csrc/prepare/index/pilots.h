/* Finds the pilots of one part of the dentries (common/dentry.h). */
#pragma once

#include <stdint.h>

#include "../../format/index_format.h"

/* The most hashes that a part may have: about twice the usual number. */
enum { FAN_PART_MOST = 2 * FAN_DENTRIES_PER_PART };

/* Finds a seed, and a pilot for each bucket, that give each of `count` hashes a different place.
 * Returns 0, or -EOVERFLOW if two hashes are equal. */
int fan_seek_pilots(const uint64_t *hashes, uint32_t count, uint16_t *pilots, uint32_t bucket_count,
                    uint32_t *seed);
