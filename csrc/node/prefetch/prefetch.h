/*
 * Bringing records before programs read them, in the order in which they will (NoPFS, section 5.1).
 * An order is what one loader reads in one epoch. Of all orders together as much is brought ahead
 * as fits in a part of the cache; that stays until it is used, or until the loader is past it.
 * Record by record that order comes next whose loader needs it first (turns.h), and each may have a
 * little ahead however much the others have. Records on this node's disk are read into memory;
 * those too long to be brought as a whole are passed over.
 */
#ifndef FAN_NODE_PREFETCH_H
#define FAN_NODE_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "../foresight/orders.h"

/* How many records of an order may be ahead, however small they are. */
enum { FAN_PREFETCH_RECORDS = 65536 };

struct fan_node;

/* Begins an order. behind: the id of one that comes first, or 0. Its id, from 1. */
uint64_t fan_prefetch_begin(struct fan_node *node, struct fan_order *order, uint64_t behind);

/* The loader has read `read` records, at least those that it is past. 0; -EINVAL. */
int fan_prefetch_read(struct fan_node *node, uint64_t id, uint64_t read, uint64_t now_ns);

/* The loader is past the first `position` records; ends an order, of which no more is read. What
 * was brought for them stays no longer than other blocks do. 0; -EINVAL: there is none; -EAGAIN:
 * not all was done, call it again. */
int fan_prefetch_pass(struct fan_node *node, uint64_t id, uint64_t position);
int fan_prefetch_end(struct fan_node *node, uint64_t id);

/* Begins what may be begun. Whether anything was. */
bool fan_prefetch_advance(struct fan_node *node, uint64_t now_ns);

#endif
