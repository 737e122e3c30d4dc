#include "staying.h"

#include <errno.h>
#include <stdlib.h>

#include "blockcache.h"

/* CANDIDATES: blocks around which room is looked for. LOOKS: of these and of those passed over. */
enum { CANDIDATES = 32, LOOKS = 128 };

/* Keys of blocks that came from the shared file system are below this, those of others are not. */
#define OF_RANKS (UINT32_C(1) << 31)

int fan_staying_init(struct fan_staying *staying, uint32_t frame_count, uint32_t granule_count)
{
    staying->owners = malloc(granule_count * sizeof(*staying->owners));
    if (staying->owners == NULL)
        return -ENOMEM;
    for (uint32_t granule = 0; granule < granule_count; granule++)
        staying->owners[granule] = FAN_NO_FRAME;
    return fan_victims_init(&staying->by_next_use, FAN_POLICY_BELADY, frame_count);
}

void fan_staying_fini(struct fan_staying *staying)
{
    fan_victims_fini(&staying->by_next_use);
    free(staying->owners);
    staying->owners = NULL;
}

uint32_t fan_staying_key(enum fan_source source, uint32_t next_use)
{
    if (source == FAN_FROM_SHARED)
        return next_use < OF_RANKS ? next_use : OF_RANKS - 1;
    return next_use < OF_RANKS - 1 ? OF_RANKS + next_use : FAN_NEVER;
}

static bool is_unforeseen(uint32_t key)
{
    return key == OF_RANKS - 1 || key == FAN_NEVER;
}

void fan_staying_own(struct fan_blockcache *cache, uint32_t id, bool owns)
{
    const struct fan_frame *frame = &cache->frames[id];
    uint32_t *owners = cache->staying.owners;
    if (owners == NULL || frame->area != 0)
        return;
    for (uint32_t i = 0; i < fan_granules_for(frame->bytes); i++)
        owners[frame->start + i] = owns ? id : FAN_NO_FRAME;
}

bool fan_staying_has(const struct fan_blockcache *cache, uint32_t id)
{
    const struct fan_frame *frame = &cache->frames[id];
    return cache->staying.owners != NULL && frame->area == 0 && frame->awaited == 0 &&
           frame->state == FAN_ENTRY_READY;
}

void fan_staying_enter(struct fan_blockcache *cache, uint32_t id)
{
    if (fan_staying_has(cache, id))
        fan_victims_foresee(&cache->staying.by_next_use, id, cache->frames[id].key);
}

void fan_staying_leave(struct fan_blockcache *cache, uint32_t id)
{
    if (fan_staying_has(cache, id))
        fan_victims_leave(&cache->staying.by_next_use, id);
}

static void set_key(struct fan_blockcache *cache, uint32_t id, uint32_t key)
{
    cache->frames[id].key = key;
    fan_victims_foresee(&cache->staying.by_next_use, id, key);
}

void fan_staying_foresee(struct fan_blockcache *cache, uint32_t id, uint32_t next_use)
{
    if (fan_staying_has(cache, id))
        set_key(cache, id, fan_staying_key(cache->frames[id].source, next_use));
}

/* Whether a block, of whose next use nothing is known, was used since this was last asked: it may
 * be again in an epoch's time, as what is to come. */
static bool is_used_unforeseen(struct fan_blockcache *cache, uint32_t id, uint32_t key)
{
    if (!is_unforeseen(cache->frames[id].key) || !fan_blockcache_touched(cache, id))
        return false;
    set_key(cache, id, key);
    return true;
}

/* Whether a frame may go for a block. */
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

/* Makes a run longer by what lies behind it, and may go or is free, until it has `granules`. */
static void grow_up(struct fan_blockcache *cache, struct run *run, uint32_t granules, uint32_t key)
{
    const uint32_t *owners = cache->staying.owners;
    while (run->end - run->start < granules && run->end < cache->areas[0].count) {
        uint32_t id = owners[run->end];
        if (id == FAN_NO_FRAME)
            run->end++;
        else if (may_go(cache, id, key))
            run->end += fan_granules_for(cache->frames[id].bytes);
        else
            return;
    }
}

/* The same by what lies before it. */
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

/* The run around a frame, which may go, where a block has room. Empty: there is none. */
static struct run run_around(struct fan_blockcache *cache, uint32_t id, uint32_t granules,
                             uint32_t key)
{
    const struct fan_frame *frame = &cache->frames[id];
    struct run run = {frame->start, frame->start + fan_granules_for(frame->bytes)};
    grow_up(cache, &run, granules, key);
    grow_down(cache, &run, granules, key);
    return run.end - run.start >= granules ? run : (struct run){0};
}

/* A run where a block has room; looked for around the blocks that are worth least. Empty: there is
 * none. */
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

/* Dooms what lies in a run. */
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

uint32_t fan_staying_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill,
                                const struct fan_live *live)
{
    if (cache->staying.owners == NULL || fan_staying_key(fill->source, fill->next_use) == FAN_NEVER)
        return FAN_NO_FRAME;
    uint32_t id = fan_blockcache_begin_fill_in(cache, fill, 0);
    if (id != FAN_NO_FRAME)
        return id;
    doom(cache, find_run(cache, fill));
    if (fan_blockcache_reap(cache, live) > 0)
        id = fan_blockcache_begin_fill_in(cache, fill, 0);
    if (id != FAN_NO_FRAME)
        cache->frames[id].replacing = true;
    return id;
}
