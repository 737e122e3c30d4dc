#include "listing.h"

#include "../machine/shared.h"

static struct fan_bucket *bucket_of(const struct fan_blockcache *cache, uint64_t file,
                                    uint64_t block, uint32_t granule)
{
    uint64_t mask = cache->segment->bucket_count - 1;
    return &cache->segment->buckets[fan_cache_hash(file, fan_cache_key(block, granule)) & mask];
}

/* Sets the granules, `first` to before `end`, under which a frame is listed: FAN_BLOCK_GRANULES for
 * a whole block. */
static void listed_under(const struct fan_frame *frame, uint32_t *first, uint32_t *end)
{
    *first = frame->piece ? frame->from : FAN_BLOCK_GRANULES;
    *end = *first + (frame->piece ? fan_granules_for(frame->bytes) : 1);
}

static bool is_listed_under(const struct fan_frame *frame, uint32_t granule)
{
    uint32_t first, end;
    listed_under(frame, &first, &end);
    return granule >= first && granule < end;
}

static uint32_t find(const struct fan_blockcache *cache, uint64_t file, uint64_t block,
                     uint32_t granule)
{
    const struct fan_bucket *bucket = bucket_of(cache, file, block, granule);
    for (unsigned way = 0; way < FAN_CACHE_WAYS; way++) {
        uint32_t id = fan_relaxed32(&bucket->entries[way]) - 1;
        if (id >= cache->segment->entry_count)
            continue;
        const struct fan_frame *frame = &cache->frames[id];
        if (frame->state == FAN_ENTRY_READY && frame->file == file && frame->block == block &&
            is_listed_under(frame, granule))
            return id;
    }
    return FAN_NO_FRAME;
}

uint32_t fan_blockcache_find(const struct fan_blockcache *cache, uint64_t file, uint64_t block)
{
    return find(cache, file, block, FAN_BLOCK_GRANULES);
}

static unsigned count_of(uint64_t file, uint64_t block)
{
    return (unsigned)(fan_cache_hash(file, block) % FAN_PIECE_COUNTS);
}

bool fan_blockcache_may_have_pieces(const struct fan_blockcache *cache, uint64_t file,
                                    uint64_t block)
{
    return cache->pieces[count_of(file, block)] > 0;
}

uint32_t fan_blockcache_find_granule(const struct fan_blockcache *cache, uint64_t file,
                                     uint64_t block, uint32_t granule)
{
    uint32_t id = fan_blockcache_find(cache, file, block);
    if (id == FAN_NO_FRAME && fan_blockcache_may_have_pieces(cache, file, block))
        id = find(cache, file, block, granule);
    return id;
}

static bool enter(struct fan_bucket *bucket, uint32_t id)
{
    for (unsigned way = 0; way < FAN_CACHE_WAYS; way++) {
        if (fan_relaxed32(&bucket->entries[way]) != 0)
            continue;
        fan_release32(&bucket->entries[way], id + 1);
        return true;
    }
    return false;
}

static void drop(struct fan_bucket *bucket, uint32_t id)
{
    for (unsigned way = 0; way < FAN_CACHE_WAYS; way++) {
        if (fan_relaxed32(&bucket->entries[way]) == id + 1)
            fan_release32(&bucket->entries[way], 0);
    }
}

bool fan_listing_enter(struct fan_blockcache *cache, uint32_t id)
{
    const struct fan_frame *frame = &cache->frames[id];
    uint32_t granule, end;
    bool all = true;
    for (listed_under(frame, &granule, &end); granule < end; granule++)
        all &= enter(bucket_of(cache, frame->file, frame->block, granule), id);
    return all;
}

void fan_listing_remove(struct fan_blockcache *cache, uint32_t id)
{
    const struct fan_frame *frame = &cache->frames[id];
    uint32_t granule, end;
    for (listed_under(frame, &granule, &end); granule < end; granule++)
        drop(bucket_of(cache, frame->file, frame->block, granule), id);
}

void fan_listing_count(struct fan_blockcache *cache, const struct fan_frame *frame, int by)
{
    if (frame->piece)
        cache->pieces[count_of(frame->file, frame->block)] += (uint32_t)by;
}
