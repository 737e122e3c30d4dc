/*
 * Decides whether to fetch a block before anyone wants it. Such a block is only fetched if there is
 * room; most of the cache, and most readers, are kept free for demands.
 */
#ifndef FAN_NODE_BRING_H
#define FAN_NODE_BRING_H

#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

/* The reason to fetch a block ahead: its file is read from front to back; a client gave a hint; a
 * loader reads in a known order (prefetch.h). */
enum fan_bring_for { FAN_FOR_RUN, FAN_FOR_HINT, FAN_FOR_ORDER };

/* BRING: the block may be fetched, or its fetch was begun. THERE: it is in the cache, or on its
 * way. LATER: the limit of fetches in progress is reached. NO_ROOM: there is no room, and will be
 * none soon. NOWHERE: there is no such block, or it is damaged. */
enum fan_bring {
    FAN_BRING,
    FAN_BRING_THERE,
    FAN_BRING_LATER,
    FAN_BRING_NO_ROOM,
    FAN_BRING_NOWHERE
};

/* Decides about one block. If it may be fetched, fills `request`. */
enum fan_bring fan_bring_check(struct fan_node *node, uint64_t file, uint64_t block,
                               enum fan_bring_for whom, struct fan_fetch_request *request);

#endif
