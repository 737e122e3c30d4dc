/*
 * Computes from the known orders when each block is used next; under belady the block cache decides
 * by that. Time is counted in records. An order begins when it is announced, or at the end of the
 * order behind which it comes; the time of uses beyond the known orders is unknown. A time must fit
 * into a 32-bit key, so keys count from a base that moves on in long jobs.
 */
#pragma once

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

/* Returns the key of the next use of a file or piece (fan_entry_use): 0 for a file that this node
 * keeps for all ranks; FAN_NEVER if no order uses it; otherwise the first use for which the orders
 * have not fetched it yet. is_read: a client reads the file now, so the soonest use is this one and
 * does not count. */
uint32_t fan_next_use_of(const struct fan_orders *orders, uint64_t file, bool is_read);

/* late: returns the key of the last use for which a block would stay until the end of an order: a
 * cache full of records with so many bytes then holds those that are used next. ahead: returns the
 * key with which a block that is read again replaces others before its use: it may replace what is
 * used later than `late`, which would go anyway. */
uint32_t fan_next_use_late(const struct fan_orders *orders, const struct fan_order *order,
                           uint64_t bytes);
uint32_t fan_next_use_ahead(const struct fan_orders *orders, uint64_t file, uint64_t bytes);

/* Sets the keys of a file's blocks to the key of its next use. */
void fan_next_use_renew(struct fan_orders *orders, uint64_t file);

/* Updates the key of one frame, of a piece. */
void fan_next_use_renew_piece(struct fan_orders *orders, uint32_t id);

/* Call it after an order was added, because its records now have an earlier next use. Updates the
 * keys of a short order at once; for a long one, fan_next_use_advance does it step by step. */
void fan_next_use_begin(struct fan_orders *orders, const struct fan_order *order);

/* Updates the keys of the next few frames. Returns whether there are more. */
bool fan_next_use_advance(struct fan_orders *orders);
