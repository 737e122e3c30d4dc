/*
 * Finds the new wants in the sessions of clients.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

/* Looks at the pins of the sessions that rang, and starts to fetch the blocks that they want.
 * Returns whether there were any. */
bool fan_new_wants_start(struct fan_node *node, uint64_t now_ns);
