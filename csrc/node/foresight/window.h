/*
 * Limits the bytes that all orders together may have ahead, in two pools: the block cache, and
 * memory pages of this node's disk. An order that finds no room rests until a larger part of the
 * pool is free, so that it then fetches much at a time. A small part is reserved for orders that
 * have little ahead. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum fan_pool { FAN_POOL_CACHE, FAN_POOL_PAGES, FAN_POOLS };

/* most: the limit of each pool in bytes. taken: the bytes of all orders; sharers: the number of
 * orders. */
struct fan_window {
    uint64_t most[FAN_POOLS];
    uint64_t taken[FAN_POOLS];
    uint32_t sharers;
};

/* One order's part of the window. rests: the pool that has no room for it; FAN_POOLS: the order
 * does not rest. */
struct fan_window_part {
    uint64_t taken[FAN_POOLS];
    enum fan_pool rests;
};

void fan_window_join(struct fan_window *window, struct fan_window_part *part);
void fan_window_leave(struct fan_window *window);

void fan_window_take(struct fan_window *window, struct fan_window_part *part, enum fan_pool pool,
                     uint64_t bytes);
void fan_window_give(struct fan_window *window, struct fan_window_part *part, enum fan_pool pool,
                     uint64_t bytes);

/* Returns whether the order may have `bytes` more ahead; if not, the order rests. full: an order
 * with an earlier turn found no room, so this one may not take the room away from it. */
bool fan_window_admit(const struct fan_window *window, struct fan_window_part *part,
                      enum fan_pool pool, uint64_t bytes, bool full);

/* Wakes a resting order if there is room for it again. own: some of its own bytes were read just
 * now. */
void fan_window_wake(const struct fan_window *window, struct fan_window_part *part, bool own);
