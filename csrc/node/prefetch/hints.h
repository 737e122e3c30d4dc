/*
 * Bringing the blocks that clients say they will read soon (cache_format.h). The hints of a session
 * are moved to a line; the first one of it goes on as others' blocks arrive. What finds no room is
 * dropped: in the line, in the cache, or beyond the share of the cache that hints may fill.
 */
#ifndef FAN_NODE_HINTS_H
#define FAN_NODE_HINTS_H

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

/* Takes what clients have hinted at, begins what may be begun. Whether there was anything. */
bool fan_hints_advance(struct fan_node *node, uint64_t now_ns);

#endif
