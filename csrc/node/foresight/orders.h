/*
 * An order: the records, and pieces of large ones, that one loader reads in one epoch, and how far
 * the loader is. In orders, "record" also means a piece of one.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../../format/cache_format.h"
#include "../../format/trace_format.h"
#include "../../policy/places.h"
#include "../machine/piece.h"
#include "next_use.h"
#include "turns.h"
#include "window.h"

/* An entry of an order: a record id and, from bit 40 on, the number + 1 of one of its pieces of
 * FAN_PIECE_BYTES; 0: the whole record. */
/* cffi: begin */
enum { FAN_ENTRY_PIECE_SHIFT = 40 };
/* cffi: end */

static inline uint64_t fan_entry_record(uint64_t entry)
{
    return entry & ((UINT64_C(1) << FAN_ENTRY_PIECE_SHIFT) - 1);
}

static inline bool fan_entry_is_piece(uint64_t entry)
{
    return entry >> FAN_ENTRY_PIECE_SHIFT != 0;
}

/* Returns where the piece that an entry names begins in its file. */
static inline uint64_t fan_entry_offset(uint64_t entry)
{
    return ((entry >> FAN_ENTRY_PIECE_SHIFT) - 1) * FAN_PIECE_BYTES;
}

/* Returns the word that stands for what an order reads of a block, like fan_cache_file for an
 * entry: its file or, for a part of the block, the piece in which that begins. */
static inline uint64_t fan_entry_use(uint64_t file, uint64_t block, struct fan_piece part)
{
    uint64_t granule = block * FAN_BLOCK_GRANULES + part.from;
    uint64_t piece = granule / (FAN_PIECE_BYTES / FAN_CACHE_GRANULE_BYTES);
    return part.count > 0 ? file + ((piece + 1) << FAN_ENTRY_PIECE_SHIFT) : file;
}

/* Records before `passed` were read, and records before `next` were fetched; the next block to
 * fetch is `block` of record `next`, whose earlier blocks take `bytes`. brought: a ring with the
 * bytes that each record from `passed` to `next` takes in a pool of the window; 0 for records that
 * stay in the cache for good. behind: the id of an order that is fetched completely first, or 0.
 * retry_ns: the cache had no room for the next record; try again then, or when the loader has moved
 * on. wanted: one bit for each record that its reader wanted before it was fetched. begins: for
 * next_use.h. vain: which part of the pieces fetched lately nobody has read, of FAN_VAIN_ALL. */
struct fan_order {
    struct fan_turn turn; /* must be first: code converts between pointers to both */
    struct fan_window_part part;
    uint64_t id;
    uint64_t behind;
    uint64_t *records; /* entries */
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
    uint32_t vain;
};

enum { FAN_VAIN_ALL = 1 << 16 };

/* All orders of this node. turns: the queue in which they take turns. uses: the next uses of the
 * blocks in the cache. */
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

/* Makes an order from a copy of a list of records of one mount. ahead: how many of them may be
 * ahead at once. Returns NULL if there is no memory, or there are too many records. */
struct fan_order *fan_order_make(uint32_t mount, const uint64_t *records, uint64_t count,
                                 uint32_t ahead);
void fan_order_free(struct fan_order *order);

/* Returns the order with an id, or NULL. */
struct fan_order *fan_orders_find(const struct fan_orders *orders, uint64_t id);

/* Returns the order that reads a file or piece (fan_entry_use) soonest, and the place of its record
 * there; NULL if none reads it. A client that wants the file is probably the reader of that order.
 */
struct fan_order *fan_orders_reader(const struct fan_orders *orders, uint64_t file,
                                    uint32_t *place);

/* note_want: a client wants a file that is not here, so the order that would soon fetch it for this
 * client need not do so. fan_order_is_wanted: returns whether a client wanted a record in this
 * way. */
void fan_orders_note_want(const struct fan_orders *orders, uint64_t file);
bool fan_order_is_wanted(const struct fan_order *order, uint64_t place);
