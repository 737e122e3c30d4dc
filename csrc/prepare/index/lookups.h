/*
 * Fills the sections of an index for looking up paths: dentries, or slots if two paths have the
 * same hash.
 *
 * The search for the pilots of a part follows PTHash (Pibiri and Trani, SIGIR 2021): the largest
 * buckets come first, and each gets the first pilot that maps all its hashes to free places.
 */
#pragma once

#include <stdint.h>

#include "../../format/index_format.h"

/* cffi: begin */
/* The records of an index and their names. path_hashes: room for a hash of each record's path,
 * which fan_hash_paths fills. */
struct fan_named {
    const struct fan_record *records;
    const char *names;
    uint64_t record_count;
    uint64_t names_bytes;
    uint64_t *path_hashes;
};

/* Computes the hashes of all paths, in the order of the records. Returns 0 or -EINVAL. */
int fan_hash_paths(const struct fan_named *named);

/* The sections through which a path leads to its record without slots. order: room for a hash of
 * each dentry. */
struct fan_dentries {
    struct fan_dentry *dentries;
    uint16_t *pilots;
    struct fan_part *parts;
    uint8_t *tags;
    uint64_t *order;
};

/* Fills the dentries and the sections that lead to them. Returns 0, -ENOMEM, or -EOVERFLOW if two
 * paths have the same hash, or one part has so many hashes that only a crafted dataset can cause
 * it. */
int fan_fill_dentries(const struct fan_named *named, const struct fan_dentries *to);

/* Fills zeroed slots, of which there must be more than records. Returns 0 and sets `max_probe` to
 * the longest probe, or -EINVAL. */
int fan_fill_slots(const struct fan_named *named, uint64_t *slots, uint64_t slot_count,
                   uint32_t *max_probe);
/* cffi: end */

/* Returns the dentry of a record. name: the record's name. Pure. */
struct fan_dentry fan_dentry_of(const struct fan_record *record, uint64_t id, const char *name);
