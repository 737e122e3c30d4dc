#include "policy.h"

#include "shared.h"

/* Sweeps cost time in proportion to what is open: they take at most a tenth of the thread. */
enum { SWEEP_PAUSE_NS = 1000000, SWEEP_SHARE = 10 };
enum { TRANSIT_SHARE = 16, TRANSIT_BLOCKS = 4, ROOM_SHARE = 64, DOOMED_MAX = 64 };

uint32_t fan_policy_transit(enum fan_policy policy, uint32_t granule_count)
{
    uint32_t share = granule_count / TRANSIT_SHARE;
    if (policy != FAN_POLICY_MINIO)
        return 0;
    return share > TRANSIT_BLOCKS * FAN_BLOCK_GRANULES ? share
                                                       : TRANSIT_BLOCKS * FAN_BLOCK_GRANULES;
}

void fan_eviction_init(struct fan_eviction *eviction, enum fan_policy policy,
                       struct fan_blockcache *cache, const struct fan_live *live)
{
    *eviction = (struct fan_eviction){.policy = policy, .cache = cache, .live = live};
}

void fan_eviction_fini(struct fan_eviction *eviction)
{
    fan_openset_fini(&eviction->open);
}

/* The area that blocks are evicted from. */
static unsigned evicted_area(const struct fan_eviction *eviction)
{
    return eviction->policy == FAN_POLICY_MINIO ? 1 : 0;
}

/* Evicts the blocks that nobody has open. How many. */
static uint32_t drop_closed(struct fan_eviction *eviction)
{
    struct fan_blockcache *cache = eviction->cache;
    eviction->released_seen = fan_acquire32(&cache->segment->header->released);
    if (fan_openset_gather(&eviction->open, cache->segment, eviction->live) != 0)
        return 0;
    uint32_t id = cache->ready[evicted_area(eviction)].head;
    while (id != FAN_NO_FRAME) {
        uint32_t next = cache->frames[id].next;
        if (!fan_openset_has(&eviction->open, cache->frames[id].file))
            fan_blockcache_doom(cache, id);
        id = next;
    }
    return fan_blockcache_reap(cache, eviction->live);
}

/* Whether files were closed since the last sweep. */
static bool is_due(const struct fan_eviction *eviction)
{
    const uint32_t *released = &eviction->cache->segment->header->released;
    return eviction->policy != FAN_POLICY_LRU && fan_acquire32(released) != eviction->released_seen;
}

uint64_t fan_eviction_next_ns(const struct fan_eviction *eviction)
{
    return is_due(eviction) ? eviction->next_sweep_ns : UINT64_MAX;
}

bool fan_eviction_sweep(struct fan_eviction *eviction, uint64_t now_ns)
{
    if (!is_due(eviction) || now_ns < eviction->next_sweep_ns)
        return false;
    drop_closed(eviction);
    uint64_t after_ns = fan_now_ns();
    uint64_t pause_ns = (after_ns - now_ns) * SWEEP_SHARE;
    eviction->next_sweep_ns = after_ns + (pause_ns > SWEEP_PAUSE_NS ? pause_ns : SWEEP_PAUSE_NS);
    return true;
}

void fan_eviction_expect(struct fan_eviction *eviction)
{
    eviction->released_seen--;
}

/* Dooms the least recently used blocks, until they hold `granules`. What was touched since it was
 * last seen here is passed over once. `budget`: how many blocks may still be looked at. */
static void doom_oldest(struct fan_eviction *eviction, uint32_t granules, uint32_t *budget)
{
    struct fan_blockcache *cache = eviction->cache;
    struct fan_frames *ready = &cache->ready[evicted_area(eviction)];
    uint32_t found = 0;
    while (*budget > 0 && ready->count > 0 && found < granules &&
           cache->doomed.count < DOOMED_MAX) {
        uint32_t id = ready->head;
        (*budget)--;
        if (fan_blockcache_touched(cache, id)) {
            fan_blockcache_use(cache, id);
            continue;
        }
        found += fan_granules_for(cache->frames[id].bytes);
        fan_blockcache_doom(cache, id);
    }
}

/* More than asked for where the cache is large, so that a pass over all pins serves many fills. */
static uint32_t room_wanted(const struct fan_eviction *eviction, uint32_t bytes)
{
    uint32_t share = eviction->cache->areas[evicted_area(eviction)].count / ROOM_SHARE;
    uint32_t needed = fan_granules_for(bytes);
    return needed > share ? needed : share;
}

/* Evicts blocks of open files too, the oldest first, until the new one finds adjacent room. */
static uint32_t fill_by_force(struct fan_eviction *eviction, const struct fan_fill *fill)
{
    struct fan_blockcache *cache = eviction->cache;
    const struct fan_frames *ready = &cache->ready[evicted_area(eviction)];
    uint32_t budget = 2 * ready->count;
    uint32_t id = FAN_NO_FRAME;
    while (id == FAN_NO_FRAME && budget > 0 && ready->count > 0) {
        doom_oldest(eviction, room_wanted(eviction, fill->bytes), &budget);
        if (fan_blockcache_reap(cache, eviction->live) > 0)
            id = fan_blockcache_begin_fill(cache, fill);
    }
    return id;
}

uint32_t fan_eviction_begin_fill(struct fan_eviction *eviction, const struct fan_fill *fill)
{
    struct fan_blockcache *cache = eviction->cache;
    uint32_t id = fan_blockcache_begin_fill(cache, fill);
    if (id == FAN_NO_FRAME && is_due(eviction) && drop_closed(eviction) > 0)
        id = fan_blockcache_begin_fill(cache, fill);
    if (id == FAN_NO_FRAME)
        id = fill_by_force(eviction, fill);
    return id;
}
