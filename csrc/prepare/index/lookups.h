/*
 * The sections of an index by which paths are found: dentries, or slots where two paths have the
 * same hash.
 *
 * The pilots of a part are sought as PTHash does (Pibiri and Trani, SIGIR 2021): the largest
 * buckets first, each with the first pilot that sends all its hashes to places that are still free.
 */
#ifndef FAN_PREPARE_LOOKUPS_H
#define FAN_PREPARE_LOOKUPS_H

#include <stdint.h>

#include "../../format/index_format.h"

/* cffi: begin */
/* The records of an index. path_hashes: room for one of each, filled by fan_hash_paths. */
struct fan_named {
    const struct fan_record *records;
    const char *names;
    uint64_t record_count;
    uint64_t names_bytes;
    uint64_t *path_hashes;
};

/* The hashes of all paths, in the order of the records. 0 or -EINVAL. */
int fan_hash_paths(const struct fan_named *named);

/* The sections that lead from a path to its record without slots. order: room for a hash of each
 * dentry. */
struct fan_dentries {
    struct fan_dentry *dentries;
    uint16_t *pilots;
    struct fan_part *parts;
    uint8_t *tags;
    uint64_t *order;
};

/* Fills all dentries, with what leads to them. 0, -ENOMEM, or -EOVERFLOW where two paths have the
 * same hash, or so many lie in one part that it was made for that. */
int fan_fill_dentries(const struct fan_named *named, const struct fan_dentries *to);

/* Fills slots, zeros before, of which there are more than records. 0 with the longest probe in
 * `max_probe`, or -EINVAL. */
int fan_fill_slots(const struct fan_named *named, uint64_t *slots, uint64_t slot_count,
                   uint32_t *max_probe);
/* cffi: end */

/* The dentry of a record, whose name is there. Pure. */
struct fan_dentry fan_dentry_of(const struct fan_record *record, uint64_t id, const char *name);

#endif
