/*
 * The thread that does all the work of the node daemon's core.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

/* Does all the work that there is now. The caller holds the lock. Returns whether it did any. */
bool fan_node_turn(struct fan_node *node, uint64_t now_ns);

/* Returns the start routine of the thread: takes turns, and sleeps between them, until the node
 * must stop. */
void *fan_node_thread(void *node);
