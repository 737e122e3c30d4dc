/*
 * A cache without content: it tracks which items a cache holds under a policy of ./victims.h. Each
 * item counts as opened, read and closed before the next one. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "victims.h"

/* sizes: the bytes of each item; NULL if each has item_bytes. */
struct fan_items {
    const uint64_t *sizes;
    uint64_t item_bytes;
    uint32_t count;
};

static inline uint64_t fan_item_bytes(const struct fan_items *items, uint32_t item)
{
    return items->sizes != NULL ? items->sizes[item] : items->item_bytes;
}

/* slots: for each item its slot + 1, or 0 if it is not held. items_at: for each used slot its item,
 * for each free slot the next free one. fresh: slots from here on were never used. copies: for each
 * item, the number of caches that hold it; may be NULL. peak_bytes: the most bytes that the cache
 * held at once. log: called for each item that enters or
 * leaves; may be NULL. */
struct fan_holdings {
    struct fan_victims victims;
    struct fan_items items;
    uint32_t *slots;
    uint32_t *items_at;
    uint32_t first_free;
    uint32_t fresh;
    uint64_t capacity_bytes;
    uint64_t used_bytes;
    uint16_t *copies;
    uint64_t peak_bytes;
    void (*log)(void *context, uint32_t item, bool came);
    void *log_context;
};

/* slot_count: the most items that the cache can hold at once. Returns 0 or -ENOMEM. */
int fan_holdings_init(struct fan_holdings *holdings, enum fan_policy policy,
                      const struct fan_items *items, uint32_t slot_count, uint64_t capacity_bytes);
void fan_holdings_fini(struct fan_holdings *holdings);

static inline bool fan_holdings_has(const struct fan_holdings *holdings, uint32_t item)
{
    return holdings->slots[item] != 0;
}

/* Reads an item. foreseen: the oracle's value for it, as in fan_victims_foresee; 0 without an
 * oracle. lone: no other node has a copy. Returns whether the cache held the item. */
bool fan_holdings_read(struct fan_holdings *holdings, uint32_t item, uint32_t foreseen, bool lone);
