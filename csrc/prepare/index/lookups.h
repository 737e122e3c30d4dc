/* Fills the sections of an index for looking up paths. */
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

/* Fills zeroed slots, of which there must be more than records. Returns 0 and sets `max_probe` to
 * the longest probe, or -EINVAL. */
int fan_fill_slots(const struct fan_named *named, uint32_t *slots, uint64_t slot_count,
                   uint32_t *max_probe);

/* Fills the milestones, of which there is one for every 64 records, and one more. */
void fan_fill_milestones(const struct fan_named *named, uint64_t *milestones);
/* cffi: end */
