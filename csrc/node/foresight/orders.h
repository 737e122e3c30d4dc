/*
 * Orders: what one loader reads in one epoch each, and how far it is.
 */
#ifndef FAN_NODE_ORDERS_H
#define FAN_NODE_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../policy/places.h"
#include "next_use.h"
#include "turns.h"
#include "window.h"

/* Of its records those before `passed` were read, and those before `next` brought; `block` of that
 * one is next, and its blocks before that take `bytes`. brought: what each record between them
 * takes of a room of the window, a ring; what stays in the cache for good takes none. behind: the
 * id of an order all of which is brought before, or 0. retry_ns: there was no room in the cache for
 * the next one, which is tried again then, or when the loader has moved on. wanted: a bit for each
 * record that its reader wanted before it was brought. begins: for next_use.h. */
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
    uint64_t *wanted;
    uint64_t begins;
};

/* All orders of this node. turns: a queue of the orders themselves. uses: when what the cache has
 * is used next. */
struct fan_orders {
    struct fan_queue turns;
    struct fan_window window;
    uint64_t last_id;
    struct fan_next_uses uses;
};

static inline struct fan_order *fan_orders_first(const struct fan_orders *orders)
{
    return (struct fan_order *)fan_turn_first(&orders->turns);
}

static inline struct fan_order *fan_orders_after(const struct fan_order *order)
{
    return (struct fan_order *)fan_turn_after(&order->turn);
}

/* Frees all orders. */
void fan_orders_fini(struct fan_orders *orders);

/* Of records of a mount, which are copied. `ahead`: how many may be ahead at once. NULL: there is
 * no memory, or the records are too many. */
struct fan_order *fan_order_make(uint32_t mount, const uint64_t *records, uint64_t count,
                                 uint32_t ahead);
void fan_order_free(struct fan_order *order);

/* The order with an id, or NULL. */
struct fan_order *fan_orders_find(const struct fan_orders *orders, uint64_t id);

/* Somebody wants a file that is not here: orders that are about to come to it need not bring it
 * again. Whether that was so of a record. */
void fan_orders_note_want(const struct fan_orders *orders, uint64_t file);
bool fan_order_is_wanted(const struct fan_order *order, uint64_t place);

#endif
