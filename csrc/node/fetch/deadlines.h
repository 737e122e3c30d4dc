/*
 * Attempts that take too long: those past their deadline, those at a rank that says nothing or is
 * lost, and flights that wait for room.
 */
#ifndef FAN_NODE_DEADLINES_H
#define FAN_NODE_DEADLINES_H

#include <stdint.h>

#include "../cache/frames.h"

struct fan_node;

/* Gives up attempts that are late or at a lost rank, and starts what was grounded. */
void fan_deadlines_advance(struct fan_node *node, uint64_t now_ns);

/* When that is to be called again at the latest. */
uint64_t fan_deadlines_next_ns(const struct fan_node *node);

/* How long the oldest attempt under way at a source has waited, and for which rank; 0: there is
 * none. */
uint64_t fan_deadlines_waited_ns(const struct fan_node *node, enum fan_source source,
                                 uint32_t *rank);

#endif
