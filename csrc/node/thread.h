/*
 * The thread that does all the work of the node daemon's core.
 */
#ifndef FAN_NODE_THREAD_H
#define FAN_NODE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

struct fan_node;

/* Does all there is to do at a time, with the lock held. Whether anything happened. */
bool fan_node_turn(struct fan_node *node, uint64_t now_ns);

/* The body of the thread: one turn after the other, by the clock, until the node is to stop. */
void *fan_node_thread(void *node);

#endif
