/*
 * Whether a block may be brought before anybody wants it. It goes where there is room for it, or
 * not at all; most of the cache's room, and of the readers, is left for demands.
 */
#ifndef FAN_NODE_BRING_H
#define FAN_NODE_BRING_H

#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

/* The reason to bring a block: its file is read from front to back; a client gave a hint; a loader
 * reads in an order that is known (prefetch.h). */
enum fan_bring_for { FAN_FOR_RUN, FAN_FOR_HINT, FAN_FOR_ORDER };

/* BRING: it may be, or was begun. THERE: it is in the cache, or on its way. LATER: as many as may
 * be are under way. NO_ROOM: nor will there be any soon. NOWHERE: there is no such block, or it is
 * damaged. */
enum fan_bring {
    FAN_BRING,
    FAN_BRING_THERE,
    FAN_BRING_LATER,
    FAN_BRING_NO_ROOM,
    FAN_BRING_NOWHERE
};

/* With what to ask for the block in `request`, where it may be brought. */
enum fan_bring fan_bring_check(struct fan_node *node, uint64_t file, uint64_t block,
                               enum fan_bring_for whom, struct fan_fetch_request *request);

#endif
