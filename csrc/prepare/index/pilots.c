#include "pilots.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "../../common/dentry.h"

enum { BUCKETS_MOST = FAN_PART_MOST / FAN_DENTRIES_PER_PILOT + 2, SEEDS = 64 };

/* The hashes of a part, sorted by bucket; the buckets sorted by size, the largest first. */
struct part {
    uint32_t count;
    uint32_t bucket_count;
    uint32_t starts[BUCKETS_MOST + 1]; /* where each bucket begins in `hashes` */
    uint32_t by_size[BUCKETS_MOST];
    uint64_t hashes[FAN_PART_MOST];
    uint64_t taken[(FAN_PART_MOST + 63) / 64]; /* one bit for each place */
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
    uint32_t starts[FAN_PART_MOST + 1] = {0}, at = 0;
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

static bool has_equal(const uint64_t *hashes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = i + 1; j < count; j++) {
            if (hashes[i] == hashes[j])
                return true;
        }
    }
    return false;
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

int fan_seek_pilots(const uint64_t *hashes, uint32_t count, uint16_t *pilots, uint32_t bucket_count,
                    uint32_t *seed)
{
    struct part part;
    part.count = count;
    part.bucket_count = bucket_count;
    sort_hashes(&part, hashes);
    sort_buckets(&part);
    for (uint32_t bucket = 0; bucket < bucket_count; bucket++) {
        if (has_equal(part.hashes + part.starts[bucket], size_of(&part, bucket)))
            return -EOVERFLOW;
    }
    for (*seed = 0; *seed < SEEDS; ++*seed) {
        if (seek(&part, *seed, pilots))
            return 0;
    }
    return -EOVERFLOW;
}
