#include "replay.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "victims.h"

/* held: of each item, whether the cache has it. */
struct cache {
    const struct fan_replay *replay;
    struct fan_replay_totals *totals;
    struct fan_victims victims;
    uint8_t *held;
    uint64_t used_bytes;
};

static uint64_t bytes_of(const struct cache *cache, uint32_t item)
{
    return cache->replay->sizes != NULL ? cache->replay->sizes[item] : cache->replay->item_bytes;
}

/* Whether the cache keeps an item for good once it has it. */
static bool is_kept(const struct cache *cache, uint32_t item)
{
    return cache->victims.policy == FAN_POLICY_MINIO ||
           (cache->replay->lone != NULL && cache->replay->lone[item]);
}

/* What the oracle says of the item of a read; 0 under a policy without one. */
static uint32_t foreseen_at(const struct cache *cache, uint64_t read)
{
    const struct fan_replay *replay = cache->replay;
    if (cache->victims.policy == FAN_POLICY_FREQUENCY)
        return replay->frequencies[replay->items[read]];
    return fan_policy_has_oracle(cache->victims.policy) ? replay->next_uses[read] : 0;
}

static void evict(struct cache *cache, uint32_t item)
{
    fan_victims_leave(&cache->victims, item);
    cache->held[item] = false;
    cache->used_bytes -= bytes_of(cache, item);
    cache->totals->evictions++;
    cache->totals->evicted_bytes += bytes_of(cache, item);
}

static bool make_room(struct cache *cache, uint64_t bytes, uint32_t foreseen)
{
    if (bytes > cache->replay->capacity_bytes)
        return false;
    while (cache->used_bytes + bytes > cache->replay->capacity_bytes) {
        if (fan_victims_declines(&cache->victims, foreseen))
            return false;
        uint32_t item = fan_victims_next(&cache->victims);
        if (item == FAN_NO_SLOT)
            return false;
        evict(cache, item);
    }
    return true;
}

static void admit(struct cache *cache, uint32_t item, uint64_t bytes)
{
    cache->held[item] = true;
    cache->used_bytes += bytes;
    cache->totals->admissions++;
    cache->totals->admitted_bytes += bytes;
    if (cache->used_bytes > cache->totals->peak_bytes)
        cache->totals->peak_bytes = cache->used_bytes;
}

/* Tells the policy that an item which the cache has was read, and closed again. */
static void tell(struct cache *cache, uint32_t item, bool came, uint32_t foreseen)
{
    if (is_kept(cache, item))
        return;
    if (fan_policy_has_oracle(cache->victims.policy))
        fan_victims_foresee(&cache->victims, item, foreseen);
    else if (came)
        fan_victims_enter(&cache->victims, item);
    else
        fan_victims_use(&cache->victims, item);
    fan_victims_close(&cache->victims, item);
}

static void drop_unneeded(struct cache *cache)
{
    uint32_t item;
    while ((item = fan_victims_unneeded(&cache->victims)) != FAN_NO_SLOT)
        evict(cache, item);
}

static void count(struct cache *cache, bool hit, uint64_t bytes)
{
    struct fan_replay_totals *totals = cache->totals;
    *(hit ? &totals->hits : &totals->misses) += 1;
    *(hit ? &totals->hit_bytes : &totals->missed_bytes) += bytes;
}

/* Moves the horizon of the oracle when an epoch begins. */
static void begin_epoch(struct cache *cache, uint64_t read)
{
    uint64_t end = read + 2 * cache->replay->epoch_reads;
    cache->victims.horizon = end < FAN_NEVER ? (uint32_t)end : FAN_NEVER;
}

static void replay_read(struct cache *cache, uint64_t read)
{
    const struct fan_replay *replay = cache->replay;
    uint32_t item = replay->items[read];
    uint64_t bytes = bytes_of(cache, item);
    bool hit = cache->held[item];
    replay->hits[read] = hit;
    count(cache, hit, bytes);
    if (replay->count_down)
        replay->frequencies[item]--;
    uint32_t foreseen = foreseen_at(cache, read);
    if (!hit && !make_room(cache, bytes, foreseen))
        return;
    if (!hit)
        admit(cache, item, bytes);
    tell(cache, item, !hit, foreseen);
    drop_unneeded(cache);
}

int fan_replay_run(const struct fan_replay *replay, struct fan_replay_totals *totals)
{
    struct cache cache = {.replay = replay, .totals = totals};
    *totals = (struct fan_replay_totals){0};
    cache.held = calloc(replay->item_count, sizeof(*cache.held));
    if (cache.held == NULL)
        return -ENOMEM;
    int rc = fan_victims_init(&cache.victims, (enum fan_policy)replay->policy, replay->item_count);
    for (uint64_t read = 0; rc == 0 && read < replay->read_count; read++) {
        if (replay->epoch_reads != 0 && read % replay->epoch_reads == 0)
            begin_epoch(&cache, read);
        replay_read(&cache, read);
    }
    free(cache.held);
    fan_victims_fini(&cache.victims);
    return rc;
}
