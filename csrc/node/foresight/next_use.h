/*
 * Computes from the known orders when each block is used next; under belady the block cache decides
 * by it. Time is counted in records. An order begins when it is announced, or at the end of the
 * order behind which it comes; nothing is used beyond the known orders. A time must fit into a key
 * of 32 bits, so it counts from a moment that moves on in long jobs.
 */
#ifndef FAN_NODE_NEXT_USE_H
#define FAN_NODE_NEXT_USE_H

#include <stdbool.h>
#include <stdint.h>

struct fan_blockcache;
struct fan_mounts;
struct fan_order;
struct fan_orders;

/* cache, mounts, own_rank: the node's. now: the latest time that any order has passed. since: the
 * time from which keys count. frame: the frames before this one have up-to-date keys. */
struct fan_next_uses {
    struct fan_blockcache *cache;
    const struct fan_mounts *mounts;
    uint32_t own_rank;
    uint64_t now;
    uint64_t since;
    uint32_t frame;
};

/* The key of a file's next use. 0 for files that this node keeps for all ranks; FAN_NEVER if no
 * order uses it. Otherwise the first use that the orders have not fetched yet; if someone reads the
 * file now, the use after that. */
uint32_t fan_next_use_of(const struct fan_orders *orders, uint64_t file, bool is_read);

/* Sets the keys of a file's blocks to that of its next use. */
void fan_next_use_renew(struct fan_orders *orders, uint64_t file);

/* Call it after an order was added, whose records now have a sooner next use. Updates the keys at
 * once for a short order; for a long one fan_next_use_advance does it bit by bit. */
void fan_next_use_begin(struct fan_orders *orders, const struct fan_order *order);

/* Updates the keys of the next few frames. Returns whether there are more. */
bool fan_next_use_advance(struct fan_orders *orders);

#endif
