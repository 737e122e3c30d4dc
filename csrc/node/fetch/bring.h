/*
 * Decides whether to fetch a block before a client wants it. It is fetched only if there is room;
 * most of the cache, and most reader threads, are kept free for blocks that clients wait for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../machine/piece.h"
#include "../machine/transport.h"

struct fan_node;

/* Why a block is fetched ahead: its file is read from front to back (RUN), a client gave a hint, or
 * a loader reads in a known order (prefetch.h). REPLACING: the order's window is full, so the block
 * may only come in place of others. */
enum fan_bring_for { FAN_FOR_RUN, FAN_FOR_HINT, FAN_FOR_ORDER, FAN_FOR_ORDER_REPLACING };

/* BRING: the block may be fetched, or its fetch has begun. THERE: it is in the cache or on its way.
 * LATER: too many fetches are in progress. NO_ROOM: there is no room, and will be none soon.
 * NOWHERE: there is no such block, or it is damaged. */
enum fan_bring {
    FAN_BRING,
    FAN_BRING_THERE,
    FAN_BRING_LATER,
    FAN_BRING_NO_ROOM,
    FAN_BRING_NOWHERE
};

/* Decides about one block, or a part of one: `part` then becomes what is missing of it. If it may
 * be fetched, fills `request`. */
enum fan_bring fan_bring_check(struct fan_node *node, uint64_t file, uint64_t block,
                               struct fan_piece *part, enum fan_bring_for whom,
                               struct fan_fetch_request *request);

/* Shortens a part of a block to its first granules that are neither here nor on their way. Returns
 * whether there are any. */
bool fan_bring_missing(const struct fan_node *node, uint64_t file, uint64_t block,
                       struct fan_piece *part);
