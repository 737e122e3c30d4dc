/*
 * Deals with attempts that take too long: those past their deadline, and those at a silent or lost
 * rank. Also with flights that wait for room.
 */
#ifndef FAN_NODE_DEADLINES_H
#define FAN_NODE_DEADLINES_H

#include <stdint.h>

#include "../cache/frames.h"

struct fan_node;

/* Gives up attempts that are late or at a lost rank, and restarts grounded flights. */
void fan_deadlines_advance(struct fan_node *node, uint64_t now_ns);

/* The time at which to call fan_deadlines_advance again at the latest. */
uint64_t fan_deadlines_next_ns(const struct fan_node *node);

/* How long the oldest attempt in progress at a source has waited, and for which rank; 0 if there is
 * none. */
uint64_t fan_deadlines_waited_ns(const struct fan_node *node, enum fan_source source,
                                 uint32_t *rank);

#endif
