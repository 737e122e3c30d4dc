#include "staying.h"

#include <errno.h>
#include <stdlib.h>

#include "blockcache.h"

/* CANDIDATES: blocks around which room is looked for. LOOKS: of these and of those passed over. */
enum { CANDIDATES = 32, LOOKS = 128 };

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
        fan_victims_foresee(&cache->staying.by_next_use, id, cache->frames[id].next_use);
}

void fan_staying_leave(struct fan_blockcache *cache, uint32_t id)
{
    if (fan_staying_has(cache, id))
        fan_victims_leave(&cache->staying.by_next_use, id);
}

void fan_staying_foresee(struct fan_blockcache *cache, uint32_t id, uint32_t next_use)
{
    if (!fan_staying_has(cache, id))
        return;
    cache->frames[id].next_use = next_use;
    fan_victims_foresee(&cache->staying.by_next_use, id, next_use);
}

/* Whether a block, of whose next use nothing is known, was used since this was last asked: it may
 * be again in an epoch's time, as what is to come. */
static bool is_used_unforeseen(struct fan_blockcache *cache, uint32_t id, uint32_t next_use)
{
    if (cache->frames[id].next_use != FAN_NEVER || !fan_blockcache_touched(cache, id))
        return false;
    fan_staying_foresee(cache, id, next_use);
    return true;
}

/* A run of granules, and whose they are, one after the other. */
struct run {
    uint32_t start;
    uint32_t end;
};

/* The next owner of a part of a run, from *granule on, which goes behind it; FAN_NO_FRAME. */
static uint32_t next_owner(const struct fan_blockcache *cache, struct run run, uint32_t *granule)
{
    while (*granule < run.end) {
        uint32_t id = cache->staying.owners[*granule];
        if (id == FAN_NO_FRAME) {
            ++*granule;
            continue;
        }
        *granule = cache->frames[id].start + fan_granules_for(cache->frames[id].bytes);
        return id;
    }
    return FAN_NO_FRAME;
}

/* Whether all that lies in a run may go for a block. */
static bool may_go(struct fan_blockcache *cache, struct run run, uint32_t next_use)
{
    uint32_t granule = run.start, id;
    if (run.end > cache->areas[0].count)
        return false;
    while ((id = next_owner(cache, run, &granule)) != FAN_NO_FRAME) {
        if (!fan_staying_has(cache, id) || cache->frames[id].next_use <= next_use ||
            is_used_unforeseen(cache, id, next_use))
            return false;
    }
    return true;
}

static void doom(struct fan_blockcache *cache, struct run run)
{
    uint32_t granule = run.start, id;
    while ((id = next_owner(cache, run, &granule)) != FAN_NO_FRAME)
        fan_blockcache_doom(cache, id);
}

/* A run where a block has room and everything is used later than it; looked for around the blocks
 * that are used the latest. Empty: there is none. */
static struct run find_run(struct fan_blockcache *cache, const struct fan_fill *fill)
{
    struct fan_victims *victims = &cache->staying.by_next_use;
    uint32_t run_granules = fan_granules_run(fan_granules_for(fill->bytes));
    uint32_t seen[CANDIDATES], count = 0;
    struct run found = {0};
    for (unsigned i = 0; i < LOOKS && found.end == 0 && count < CANDIDATES; i++) {
        uint32_t id = fan_victims_next(victims);
        if (id == FAN_NO_SLOT || fan_victims_declines(victims, fill->next_use))
            break;
        uint32_t start = cache->frames[id].start / run_granules * run_granules;
        const struct run run = {start, start + run_granules};
        if (may_go(cache, run, fill->next_use)) {
            found = run;
        } else if (fan_victims_next(victims) == id) {
            fan_victims_leave(victims, id);
            seen[count++] = id;
        }
    }
    while (count > 0)
        fan_staying_enter(cache, seen[--count]);
    return found;
}

uint32_t fan_staying_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill,
                                const struct fan_live *live)
{
    if (cache->staying.owners == NULL || fill->next_use == FAN_NEVER)
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
