#include "old_lookups.h"

#include <stdlib.h>
#include <string.h>

#include "../../csrc/common/dentry.h"
#include "../../csrc/common/index.h"

bool old_slots(const struct fan_named *named, uint64_t *slots, uint64_t slot_count,
               uint32_t *max_probe)
{
    for (uint64_t id = 1; id < named->record_count; id++) {
        uint64_t hash = named->path_hashes[id];
        uint64_t at = fan_first_slot(hash, slot_count);
        uint32_t probe = 0;
        for (; slots[at] != 0; probe++)
            at = at + 1 < slot_count ? at + 1 : 0;
        slots[at] = hash << FAN_OLD_SLOT_ID_BITS | (id + 1);
        *max_probe = probe > *max_probe ? probe : *max_probe;
    }
    return true;
}

enum {
    PART_MOST = 2 * FAN_DENTRIES_PER_PART,
    BUCKETS_MOST = PART_MOST / FAN_DENTRIES_PER_PILOT + 2
};

/* The hashes of a part, sorted by bucket; the buckets sorted by size, the largest first. */
struct part {
    uint32_t count;
    uint32_t bucket_count;
    uint32_t starts[BUCKETS_MOST + 1]; /* where each bucket begins in `hashes` */
    uint32_t by_size[BUCKETS_MOST];
    uint64_t hashes[PART_MOST];
    uint64_t taken[(PART_MOST + 63) / 64]; /* one bit for each place */
};

static uint32_t size_of(const struct part *part, uint32_t bucket)
{
    return part->starts[bucket + 1] - part->starts[bucket];
}

/* Sorts the hashes by bucket (counting sort). */
static void sort_hashes(struct part *part, const uint64_t *hashes)
{
    uint32_t ends[BUCKETS_MOST] = {0}, at = 0;
    for (uint32_t i = 0; i < part->count; i++)
        ends[fan_bucket_of(hashes[i], part->bucket_count)]++;
    for (uint32_t bucket = 0; bucket < part->bucket_count; bucket++) {
        uint32_t size = ends[bucket];
        part->starts[bucket] = ends[bucket] = at;
        at += size;
    }
    part->starts[part->bucket_count] = at;
    for (uint32_t i = 0; i < part->count; i++)
        part->hashes[ends[fan_bucket_of(hashes[i], part->bucket_count)]++] = hashes[i];
}

/* Sorts the buckets by size (counting sort). */
static void sort_buckets(struct part *part)
{
    uint32_t starts[PART_MOST + 1] = {0}, at = 0;
    for (uint32_t bucket = 0; bucket < part->bucket_count; bucket++)
        starts[size_of(part, bucket)]++;
    for (uint32_t size = part->count + 1; size-- > 0;) {
        uint32_t count = starts[size];
        starts[size] = at;
        at += count;
    }
    for (uint32_t bucket = 0; bucket < part->bucket_count; bucket++)
        part->by_size[starts[size_of(part, bucket)]++] = bucket;
}

/* Takes the places to which a pilot maps a bucket's hashes; takes none if one of them is not
 * free. */
static bool take(struct part *part, uint32_t bucket, uint32_t seed, uint16_t pilot)
{
    const uint64_t *hashes = part->hashes + part->starts[bucket];
    uint32_t size = size_of(part, bucket), done = 0;
    for (; done < size; done++) {
        uint64_t place = fan_place_of(hashes[done], seed, pilot, part->count);
        if (part->taken[place / 64] >> place % 64 & 1)
            break;
        part->taken[place / 64] |= UINT64_C(1) << place % 64;
    }
    bool all = done == size;
    while (!all && done-- > 0) {
        uint64_t place = fan_place_of(hashes[done], seed, pilot, part->count);
        part->taken[place / 64] &= ~(UINT64_C(1) << place % 64);
    }
    return all;
}

static bool seek(struct part *part, uint32_t seed, uint16_t *pilots)
{
    memset(part->taken, 0, sizeof(part->taken));
    for (uint32_t i = 0; i < part->bucket_count; i++) {
        uint32_t bucket = part->by_size[i], pilot = 0;
        while (pilot <= UINT16_MAX && !take(part, bucket, seed, (uint16_t)pilot))
            pilot++;
        if (pilot > UINT16_MAX)
            return false;
        pilots[bucket] = (uint16_t)pilot;
    }
    return true;
}

static struct fan_dentry dentry_of(const struct fan_named *named, uint64_t id)
{
    const struct fan_record *record = &named->records[id];
    struct fan_dentry dentry = {.logical_size = record->logical_size,
                                .mtime_ns = record->mtime_ns,
                                .id = (uint32_t)id,
                                .parent = record->parent,
                                .mode = record->mode,
                                .owner = record->owner,
                                .nlink = record->nlink,
                                .name_bytes = record->name_bytes};
    size_t bytes = record->name_bytes;
    memcpy(dentry.name, named->names + record->name_offset,
           bytes < sizeof(dentry.name) ? bytes : sizeof(dentry.name));
    return dentry;
}

/* Finds the pilots of one part, and moves its dentries to the places that they give. */
static bool fill_part(const struct old_dentries *to, const uint64_t *hashes, uint64_t number)
{
    static struct part part;
    static struct fan_dentry gathered[PART_MOST];
    uint64_t first = to->parts[number].first, count = to->parts[number + 1].first - first;
    uint16_t *pilots = to->pilots + fan_first_pilot(first, number);
    part.count = (uint32_t)count;
    part.bucket_count =
        (uint32_t)(fan_first_pilot(first + count, number + 1) - fan_first_pilot(first, number));
    sort_hashes(&part, hashes);
    sort_buckets(&part);
    if (!seek(&part, 0, pilots))
        return false;
    memcpy(gathered, to->dentries + first, count * sizeof(*gathered));
    for (uint64_t i = 0; i < count; i++) {
        uint16_t pilot = pilots[fan_bucket_of(hashes[i], part.bucket_count)];
        uint64_t place = first + fan_place_of(hashes[i], 0, pilot, count);
        to->dentries[place] = gathered[i];
        to->tags[place] = fan_tag_of(hashes[i]);
    }
    return true;
}

bool old_dentries(const struct fan_named *named, const struct old_dentries *to)
{
    uint64_t hashes[PART_MOST], part_count = fan_part_count(named->record_count - 1);
    uint32_t end = 0;
    for (uint64_t number = 0; number < part_count; number++) {
        uint32_t first = end;
        to->parts[number] = (struct fan_part){.first = first};
        for (uint64_t id = 1; id < named->record_count; id++) {
            if (fan_part_of(named->path_hashes[id], part_count) != number)
                continue;
            if (end - first == PART_MOST)
                return false;
            hashes[end - first] = named->path_hashes[id];
            to->dentries[end++] = dentry_of(named, id);
        }
        to->parts[number + 1] = (struct fan_part){.first = end};
        if (!fill_part(to, hashes, number))
            return false;
    }
    return true;
}
