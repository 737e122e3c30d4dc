#include "lookups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/dentry.h"
#include "../../common/index.h"
#include "pilots.h"

int fan_hash_paths(const struct fan_named *named)
{
    const struct fan_index index = {.names = named->names, .names_bytes = named->names_bytes};
    named->path_hashes[0] = FAN_PATH_HASH_ROOT;
    for (uint64_t id = 1; id < named->record_count; id++) {
        const struct fan_record *record = &named->records[id];
        const char *name;
        size_t bytes;
        if (record->parent >= id || fan_index_name(&index, record, &name, &bytes) != 0)
            return -EINVAL;
        named->path_hashes[id] =
            fan_path_hash_step(named->path_hashes[record->parent], name, bytes);
    }
    return 0;
}

/* Counts the dentries of each part, and sets where each part starts. Returns -EOVERFLOW if a part
 * has too many. */
static int lay_out_parts(const struct fan_named *named, struct fan_part *parts, uint64_t part_count)
{
    uint32_t first = 0;
    memset(parts, 0, (part_count + 1) * sizeof(*parts));
    for (uint64_t id = 1; id < named->record_count; id++)
        parts[fan_part_of(named->path_hashes[id], part_count)].first++;
    for (uint64_t part = 0; part <= part_count; part++) {
        uint32_t count = parts[part].first;
        if (count > FAN_PART_MOST)
            return -EOVERFLOW;
        parts[part].first = first;
        first += count;
    }
    return 0;
}

struct fan_dentry fan_dentry_of(const struct fan_record *record, uint64_t id, const char *name)
{
    struct fan_dentry dentry = {.logical_size = record->logical_size,
                                .mtime_ns = record->mtime_ns,
                                .id = (uint32_t)id,
                                .parent = record->parent,
                                .mode = record->mode,
                                .owner = record->owner,
                                .nlink = record->nlink,
                                .name_bytes = record->name_bytes};
    size_t bytes = record->name_bytes;
    memcpy(dentry.name, name, bytes < sizeof(dentry.name) ? bytes : sizeof(dentry.name));
    return dentry;
}

/* Writes each dentry, and its hash, to any position in its part. Touches few pages at a time: one
 * of each part. */
static int gather_parts(const struct fan_named *named, const struct fan_dentries *to,
                        uint64_t part_count)
{
    uint32_t *ends = malloc((part_count + 1) * sizeof(*ends));
    if (ends == NULL)
        return -ENOMEM;
    for (uint64_t part = 0; part <= part_count; part++)
        ends[part] = to->parts[part].first;
    for (uint64_t id = 1; id < named->record_count; id++) {
        uint64_t hash = named->path_hashes[id];
        uint32_t at = ends[fan_part_of(hash, part_count)]++;
        const struct fan_record *record = &named->records[id];
        to->dentries[at] = fan_dentry_of(record, id, named->names + record->name_offset);
        to->order[at] = hash;
    }
    free(ends);
    return 0;
}

/* Finds the pilots of one part, and moves its dentries to the positions that they give. */
static int fill_part(const struct fan_dentries *to, uint64_t number)
{
    struct fan_dentry gathered[FAN_PART_MOST];
    struct fan_part *part = &to->parts[number];
    uint64_t first = part[0].first, end = part[1].first, count = end - first;
    uint16_t *pilots = to->pilots + fan_first_pilot(first, number);
    uint64_t buckets = fan_first_pilot(end, number + 1) - fan_first_pilot(first, number);
    const uint64_t *hashes = to->order + first;
    int rc = fan_seek_pilots(hashes, (uint32_t)count, pilots, (uint32_t)buckets, &part->seed);
    if (rc != 0)
        return rc;
    memcpy(gathered, to->dentries + first, count * sizeof(*gathered));
    for (uint64_t i = 0; i < count; i++) {
        uint16_t pilot = pilots[fan_bucket_of(hashes[i], buckets)];
        uint64_t place = first + fan_place_of(hashes[i], part->seed, pilot, count);
        to->dentries[place] = gathered[i];
        to->tags[place] = fan_tag_of(hashes[i]);
    }
    return 0;
}

int fan_fill_dentries(const struct fan_named *named, const struct fan_dentries *to)
{
    uint64_t part_count = fan_part_count(named->record_count - 1);
    int rc = lay_out_parts(named, to->parts, part_count);
    if (rc == 0)
        rc = gather_parts(named, to, part_count);
    for (uint64_t part = 0; rc == 0 && part < part_count; part++)
        rc = fill_part(to, part);
    return rc;
}

static int put_slot(uint64_t *slots, uint64_t slot_count, uint64_t hash, uint64_t id,
                    uint32_t *max_probe)
{
    uint64_t at = (uint64_t)(((unsigned __int128)hash * slot_count) >> 64);
    for (uint64_t probe = 0; probe < slot_count; probe++) {
        if (slots[at] == 0) {
            slots[at] = hash << FAN_SLOT_ID_BITS | (id + 1);
            if (probe > *max_probe)
                *max_probe = (uint32_t)probe;
            return 0;
        }
        if (++at == slot_count)
            at = 0;
    }
    return -EINVAL;
}

int fan_fill_slots(const struct fan_named *named, uint64_t *slots, uint64_t slot_count,
                   uint32_t *max_probe)
{
    int rc = 0;
    *max_probe = 0;
    for (uint64_t id = 1; rc == 0 && id < named->record_count; id++)
        rc = put_slot(slots, slot_count, named->path_hashes[id], id, max_probe);
    return rc;
}
