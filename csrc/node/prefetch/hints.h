/*
 * Fetches the blocks that clients say they will read soon (cache_format.h). Moves the hints of
 * sessions to a queue, and continues with the first hint as earlier blocks arrive. Drops a hint if
 * the queue or the cache has no room, or the share of the cache that hints may fill is used up.
 */
#ifndef FAN_NODE_HINTS_H
#define FAN_NODE_HINTS_H

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

/* Takes new hints from the clients and starts the fetches that may start. Returns whether there was
 * anything to do. */
bool fan_hints_advance(struct fan_node *node, uint64_t now_ns);

#endif
