#include "replay.h"

#include <stdbool.h>

#include "holdings.h"

/* Returns the oracle's value for the item of a read; 0 under a policy without an oracle. */
static uint32_t foreseen_at(const struct fan_replay *replay, uint64_t read)
{
    if (replay->policy == FAN_POLICY_FREQUENCY)
        return replay->frequencies[replay->items[read]];
    return fan_policy_has_oracle((enum fan_policy)replay->policy) ? replay->next_uses[read] : 0;
}

static void count(struct fan_replay_totals *totals, bool hit, uint64_t bytes)
{
    *(hit ? &totals->hits : &totals->misses) += 1;
    *(hit ? &totals->hit_bytes : &totals->missed_bytes) += bytes;
}

/* Moves the horizon at the beginning of an epoch. */
static void begin_epoch(struct fan_holdings *holdings, uint64_t end)
{
    holdings->victims.horizon = end < FAN_NEVER ? (uint32_t)end : FAN_NEVER;
}

static bool replay_read(const struct fan_replay *replay, struct fan_holdings *holdings,
                        uint64_t read)
{
    uint32_t item = replay->items[read];
    bool lone = replay->lone != NULL && replay->lone[item];
    if (replay->count_down)
        replay->frequencies[item]--;
    return fan_holdings_read(holdings, item, foreseen_at(replay, read), lone);
}

static void take_totals(struct fan_replay_totals *totals, const struct fan_admissions *admissions)
{
    totals->admissions = admissions->admissions;
    totals->admitted_bytes = admissions->admitted_bytes;
    totals->evictions = admissions->evictions;
    totals->evicted_bytes = admissions->evicted_bytes;
    totals->peak_bytes = admissions->peak_bytes;
}

int fan_replay_run(const struct fan_replay *replay, struct fan_replay_totals *totals)
{
    const struct fan_items items = {replay->sizes, replay->item_bytes, replay->item_count};
    struct fan_holdings holdings;
    *totals = (struct fan_replay_totals){0};
    int rc = fan_holdings_init(&holdings, (enum fan_policy)replay->policy, &items, items.count,
                               replay->capacity_bytes);
    for (uint64_t read = 0; rc == 0 && read < replay->read_count; read++) {
        if (replay->epoch_reads != 0 && read % replay->epoch_reads == 0)
            begin_epoch(&holdings, read + 2 * replay->epoch_reads);
        bool hit = replay_read(replay, &holdings, read);
        replay->hits[read] = hit;
        count(totals, hit, fan_item_bytes(&items, replay->items[read]));
    }
    take_totals(totals, &holdings.totals);
    fan_holdings_fini(&holdings);
    return rc;
}
