/*
 * When blocks are used next, by the orders that are known: what the block cache keeps under belady.
 * Time is counted in records. An order begins when it is told, or where the order ends that it is
 * behind; beyond the orders that are known nothing is used. So that a time fits into a key of 32
 * bits it is counted from a moment that is moved on in long jobs.
 */
#ifndef FAN_NODE_NEXT_USE_H
#define FAN_NODE_NEXT_USE_H

#include <stdbool.h>
#include <stdint.h>

struct fan_blockcache;
struct fan_mounts;
struct fan_order;
struct fan_orders;

/* cache, mounts, own_rank: of the node. now: the latest place that any order has passed. since:
 * keys count from there. frame: those before it, all when it is behind the last one, have the keys
 * that the orders of now give. */
struct fan_next_uses {
    struct fan_blockcache *cache;
    const struct fan_mounts *mounts;
    uint32_t own_rank;
    uint64_t now;
    uint64_t since;
    uint32_t frame;
};

/* The key of a file's next use: 0 for what this node keeps for all ranks; else behind what the
 * orders have brought, and, if somebody reads it now, behind that; FAN_NEVER. */
uint32_t fan_next_use_of(const struct fan_orders *orders, uint64_t file, bool is_read);

/* The blocks of a file have the key of its next use from now on. */
void fan_next_use_renew(struct fan_orders *orders, uint64_t file);

/* An order was added: what it reads is used sooner than was known, which blocks of a long one learn
 * some at a time. */
void fan_next_use_begin(struct fan_orders *orders, const struct fan_order *order);

/* Gives the next ones their keys. Whether there are more. */
bool fan_next_use_advance(struct fan_orders *orders);

#endif
