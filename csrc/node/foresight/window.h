/*
 * The bytes that all orders may have ahead together: in the pool of the block cache, and in that of
 * pages of this node's disk. An order that finds no room rests until a part of it is free, so
 * that much is brought at a time. A small part is kept for orders that have little ahead. Pure.
 */
#ifndef FAN_NODE_WINDOW_H
#define FAN_NODE_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

enum fan_pool { FAN_POOL_CACHE, FAN_POOL_PAGES, FAN_POOLS };

/* most: of each pool. taken: by all orders, of which there are `sharers`. */
struct fan_window {
    uint64_t most[FAN_POOLS];
    uint64_t taken[FAN_POOLS];
    uint32_t sharers;
};

/* The share that one order has taken. rests: the pool in which there is no room for it, FAN_POOLS:
 * it goes on. */
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

/* Whether so many bytes more may be ahead; if not, the order rests. full: one that comes before it
 * found no room, which is not to be taken from that. */
bool fan_window_admit(const struct fan_window *window, struct fan_window_part *part,
                      enum fan_pool pool, uint64_t bytes, bool full);

/* Has an order go on where there is room for it again. own: of its bytes some were read just now.
 */
void fan_window_wake(const struct fan_window *window, struct fan_window_part *part, bool own);

#endif
