#include "eviction.h"

#include "blockcache.h"
#include "unread.h"

/* CANDIDATES: around how many blocks to look for room. LOOKS: at how many blocks to look, including
 * skipped ones. */
enum { CANDIDATES = 32, LOOKS = 128 };

/* Returns whether a block whose next use is unknown was used since the last call. Such a block may
 * be used again in the next epoch, like blocks that will come. */
static bool is_used_unforeseen(struct fan_blockcache *cache, uint32_t id, uint32_t key)
{
    if (!fan_staying_is_unforeseen(cache, id) || !fan_unread_take_touched(cache, id))
        return false;
    fan_staying_set_key(cache, id, key);
    return true;
}

/* Returns whether a frame may be evicted for a block with this key. */
static bool may_go(struct fan_blockcache *cache, uint32_t id, uint32_t key)
{
    return fan_staying_has(cache, id) && cache->frames[id].key > key &&
           !is_used_unforeseen(cache, id, key);
}

/* A run of granules. */
struct run {
    uint32_t start;
    uint32_t end;
};

/* Extends a run at its end by granules that are free or whose frame may be evicted, until it has
 * `granules`. */
static void grow_up(struct fan_blockcache *cache, struct run *run, uint32_t granules, uint32_t key)
{
    const uint32_t *owners = cache->staying.owners;
    while (run->end - run->start < granules && run->end < cache->areas[FAN_AREA_STAYING].count) {
        uint32_t id = owners[run->end];
        if (id == FAN_NO_FRAME)
            run->end++;
        else if (may_go(cache, id, key))
            run->end += fan_granules_for(cache->frames[id].bytes);
        else
            return;
    }
}

/* Extends a run at its start, in the same way. */
static void grow_down(struct fan_blockcache *cache, struct run *run, uint32_t granules,
                      uint32_t key)
{
    const uint32_t *owners = cache->staying.owners;
    while (run->end - run->start < granules && run->start > 0) {
        uint32_t id = owners[run->start - 1];
        if (id == FAN_NO_FRAME)
            run->start--;
        else if (may_go(cache, id, key))
            run->start = cache->frames[id].start;
        else
            return;
    }
}

/* Returns a run around a frame that may be evicted that is long enough for a block; an empty one if
 * there is none. */
static struct run run_around(struct fan_blockcache *cache, uint32_t id, uint32_t granules,
                             uint32_t key)
{
    const struct fan_frame *frame = &cache->frames[id];
    struct run run = {frame->start, frame->start + fan_granules_for(frame->bytes)};
    grow_up(cache, &run, granules, key);
    grow_down(cache, &run, granules, key);
    return run.end - run.start >= granules ? run : (struct run){0};
}

/* Looks for a run that is long enough for a block around the blocks that are worth least. Returns
 * an empty run if there is none. */
static struct run find_run(struct fan_blockcache *cache, const struct fan_fill *fill)
{
    struct fan_victims *victims = &cache->staying.by_next_use;
    uint32_t granules = fan_granules_for(fill->bytes);
    uint32_t key = fan_staying_key(fill->source, fill->next_use);
    uint32_t seen[CANDIDATES], count = 0;
    struct run found = {0};
    for (unsigned i = 0; i < LOOKS && found.end == 0 && count < CANDIDATES; i++) {
        uint32_t id = fan_victims_next(victims);
        if (id == FAN_NO_SLOT || fan_victims_declines(victims, key))
            break;
        if (is_used_unforeseen(cache, id, key))
            continue;
        found = run_around(cache, id, granules, key);
        if (found.end == 0) {
            fan_victims_leave(victims, id);
            seen[count++] = id;
        }
    }
    while (count > 0)
        fan_staying_enter(cache, seen[--count]);
    return found;
}

/* Dooms the frames in a run. */
static void doom(struct fan_blockcache *cache, struct run run)
{
    for (uint32_t granule = run.start; granule < run.end;) {
        uint32_t id = cache->staying.owners[granule];
        if (id == FAN_NO_FRAME) {
            granule++;
            continue;
        }
        granule += fan_granules_for(cache->frames[id].bytes);
        fan_blockcache_doom(cache, id);
    }
}

uint32_t fan_replacing_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill,
                                  const struct fan_live *live)
{
    if (cache->staying.owners == NULL || fan_staying_key(fill->source, fill->next_use) == FAN_NEVER)
        return FAN_NO_FRAME;
    uint32_t id = fan_blockcache_begin_fill_in(cache, fill, FAN_AREA_STAYING);
    if (id != FAN_NO_FRAME)
        return id;
    doom(cache, find_run(cache, fill));
    return fan_blockcache_reap(cache, live) > 0
               ? fan_blockcache_begin_fill_in(cache, fill, FAN_AREA_STAYING)
               : FAN_NO_FRAME;
}
