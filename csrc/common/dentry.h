/*
 * Finds the place of a path's dentry in an index of version 2, with a minimal perfect hash of the
 * path hashes, which is divided into parts of about a thousand dentries. docs/format.md specifies
 * it.
 *
 * The high bits of a hash select its part, the low ones its bucket in the part. The bucket's pilot,
 * found when the index was made, maps all hashes of the bucket to places that no other hash has.
 */
#pragma once

#include <stdint.h>

#include "../format/index_format.h"
#include "path_hash.h"

static inline uint64_t fan_part_of(uint64_t hash, uint64_t part_count)
{
    return (uint64_t)(((unsigned __int128)hash * part_count) >> 64);
}

static inline uint64_t fan_part_count(uint64_t dentry_count)
{
    return dentry_count / FAN_DENTRIES_PER_PART + 1;
}

/* Returns the start of the pilots of part number `part`, whose first dentry is `first`. */
static inline uint64_t fan_first_pilot(uint64_t first, uint64_t part)
{
    return first / FAN_DENTRIES_PER_PILOT + part;
}

static inline uint64_t fan_bucket_of(uint64_t hash, uint64_t bucket_count)
{
    return ((uint64_t)(uint32_t)hash * bucket_count) >> 32;
}

/* Returns the place in a part of `count` dentries. */
static inline uint64_t fan_place_of(uint64_t hash, uint32_t seed, uint16_t pilot, uint64_t count)
{
    uint64_t tried = (uint64_t)seed << 16 | pilot;
    return ((fan_hash_fold(hash ^ tried * FAN_PATH_HASH_A, FAN_PATH_HASH_B) >> 32) * count) >> 32;
}

/* Returns a byte of the hash. It rules out most missing names without reading a dentry. */
static inline uint8_t fan_tag_of(uint64_t hash)
{
    return (uint8_t)(hash >> 32);
}
