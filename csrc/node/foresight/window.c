#include "window.h"

/* WAKE_SHARE: the part of a pool that must be free before resting orders continue. FLOOR_SHARE: the
 * part that is reserved for orders with little ahead, divided evenly. */
enum { WAKE_SHARE = 4, FLOOR_SHARE = 4 };

void fan_window_join(struct fan_window *window, struct fan_window_part *part)
{
    *part = (struct fan_window_part){.rests = FAN_POOLS};
    window->sharers++;
}

void fan_window_leave(struct fan_window *window)
{
    window->sharers--;
}

void fan_window_take(struct fan_window *window, struct fan_window_part *part, enum fan_pool pool,
                     uint64_t bytes)
{
    window->taken[pool] += bytes;
    part->taken[pool] += bytes;
}

void fan_window_give(struct fan_window *window, struct fan_window_part *part, enum fan_pool pool,
                     uint64_t bytes)
{
    window->taken[pool] -= bytes;
    part->taken[pool] -= bytes;
}

/* Returns how many bytes an order may always have ahead, however much the others have. */
static uint64_t floor_of(const struct fan_window *window, enum fan_pool pool)
{
    return window->most[pool] / FLOOR_SHARE / window->sharers;
}

/* Returns whether the pool has room. A record longer than half of the pool waits until half is
 * free. */
static bool fits(const struct fan_window *window, enum fan_pool pool, uint64_t bytes)
{
    uint64_t most = window->most[pool], needed = bytes < most / 2 ? bytes : most / 2;
    return window->taken[pool] + needed <= most;
}

bool fan_window_admit(const struct fan_window *window, struct fan_window_part *part,
                      enum fan_pool pool, uint64_t bytes, bool full)
{
    if ((!full && fits(window, pool, bytes)) || part->taken[pool] + bytes <= floor_of(window, pool))
        return true;
    part->rests = pool;
    return false;
}

void fan_window_wake(const struct fan_window *window, struct fan_window_part *part, bool own)
{
    enum fan_pool pool = part->rests;
    if (pool == FAN_POOLS)
        return;
    uint64_t most = window->most[pool];
    if (window->taken[pool] <= most - most / WAKE_SHARE ||
        (own && part->taken[pool] < floor_of(window, pool)))
        part->rests = FAN_POOLS;
}
