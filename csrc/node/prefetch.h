/*
 * Bringing what programs will read, in the order in which they will (NoPFS, section 5.1). An order
 * is what one loader reads in one epoch. Of all orders together as much is brought ahead as fits in
 * a part of the cache; that stays until it is used, or until the loader is past it. Record by
 * record that order comes next whose loader needs it first (turns.h), and each may have a little
 * ahead however much the others have. Records on this node's disk are read into memory; those too
 * long to be brought as a whole are passed over.
 */
#ifndef FAN_NODE_PREFETCH_H
#define FAN_NODE_PREFETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "../policy/places.h"
#include "next_use.h"
#include "turns.h"
#include "window.h"

struct fan_node;

/* Of its records those before `passed` were read, and those before `next` brought; `block` of that
 * one is next, and its blocks before that take `bytes`. brought: what each record between them
 * takes of a room of the window, a ring; what stays in the cache for good takes none. behind: the
 * id of an order all of which is brought before, or 0. retry_ns: there was no room in the cache for
 * the next one, which is tried again then, or when the loader has moved on. places, begins: for
 * next_use.h, where that matters. */
struct fan_order {
    struct fan_turn turn; /* first, so that one is the other */
    struct fan_window_part part;
    uint64_t id;
    uint64_t behind;
    uint64_t *records;
    uint64_t count;
    uint64_t passed;
    uint64_t next;
    uint64_t block;
    uint32_t bytes;
    uint32_t *brought;
    uint32_t mount;
    uint64_t retry_ns;
    struct fan_places places;
    uint64_t begins;
};

/* turns: the orders. */
struct fan_prefetch {
    struct fan_turns turns;
    struct fan_window window;
    uint64_t last_id;
    struct fan_next_uses uses;
};

/* The orders, one after the other. */
static inline struct fan_order *fan_order_first(const struct fan_prefetch *prefetch)
{
    return (struct fan_order *)prefetch->turns.first;
}

static inline struct fan_order *fan_order_after(const struct fan_order *order)
{
    return (struct fan_order *)order->turn.after;
}

void fan_prefetch_fini(struct fan_prefetch *prefetch);

/* An order of records, which are copied. Needs no lock. NULL: there is no memory, or the records
 * are too many. */
struct fan_order *fan_order_make(const struct fan_node *node, uint32_t mount,
                                 const uint64_t *records, uint64_t count);

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
