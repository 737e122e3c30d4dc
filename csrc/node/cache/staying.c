#include "staying.h"

#include <errno.h>
#include <stdlib.h>

#include "blockcache.h"

/* Blocks of other ranks have keys from this on; blocks of the shared file system have lower
 * ones. */
#define OF_RANKS (UINT32_C(1) << 31)

int fan_staying_init(struct fan_staying *staying, uint32_t frame_count, uint32_t granule_count)
{
    staying->owners = malloc(granule_count * sizeof(*staying->owners));
    if (staying->owners == NULL)
        return -ENOMEM;
    return fan_victims_init(&staying->by_next_use, FAN_POLICY_BELADY, frame_count);
}

void fan_staying_add(struct fan_staying *staying, uint32_t first, uint32_t count)
{
    for (uint32_t i = 0; staying->owners != NULL && i < count; i++)
        staying->owners[first + i] = FAN_NO_FRAME;
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

bool fan_staying_is_unforeseen(const struct fan_blockcache *cache, uint32_t id)
{
    uint32_t key = cache->frames[id].key;
    return key == OF_RANKS - 1 || key == FAN_NEVER;
}

void fan_staying_own(struct fan_blockcache *cache, uint32_t id, bool owns)
{
    const struct fan_frame *frame = &cache->frames[id];
    uint32_t *owners = cache->staying.owners;
    if (owners == NULL || frame->area != FAN_AREA_STAYING)
        return;
    for (uint32_t i = 0; i < fan_granules_for(frame->bytes); i++)
        owners[frame->start + i] = owns ? id : FAN_NO_FRAME;
}

bool fan_staying_has(const struct fan_blockcache *cache, uint32_t id)
{
    const struct fan_frame *frame = &cache->frames[id];
    return cache->staying.owners != NULL && frame->area == FAN_AREA_STAYING &&
           frame->awaited == 0 && frame->state == FAN_ENTRY_READY;
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

void fan_staying_set_key(struct fan_blockcache *cache, uint32_t id, uint32_t key)
{
    cache->frames[id].key = key;
    fan_victims_foresee(&cache->staying.by_next_use, id, key);
}

void fan_staying_foresee(struct fan_blockcache *cache, uint32_t id, uint32_t next_use)
{
    if (fan_staying_has(cache, id))
        fan_staying_set_key(cache, id, fan_staying_key(cache->frames[id].source, next_use));
}
