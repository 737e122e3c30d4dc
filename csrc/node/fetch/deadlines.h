/*
 * Handles attempts that take too long: those past their deadline, and those at a silent or lost
 * rank. Also restarts flights that wait for room.
 */
#pragma once

#include <stdint.h>

#include "../cache/frames.h"

struct fan_node;

/* Gives up attempts that are late or at a lost rank, and restarts grounded flights. */
void fan_deadlines_advance(struct fan_node *node, uint64_t now_ns);

/* Returns when fan_deadlines_advance must be called again at the latest. */
uint64_t fan_deadlines_next_ns(const struct fan_node *node);

/* Returns how long the oldest attempt in progress at a source has taken, and sets the rank that was
 * asked; 0 if there is none. */
uint64_t fan_deadlines_waited_ns(const struct fan_node *node, enum fan_source source,
                                 uint32_t *rank);
