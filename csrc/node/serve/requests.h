/*
 * Answers the requests of other ranks: with the bytes, directly from the mapped pack, or with the
 * reason why there are none. If the bytes are not in memory, a reader's thread waits for the disk.
 */
#ifndef FAN_NODE_REQUESTS_H
#define FAN_NODE_REQUESTS_H

#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

/* Answers a REQUEST event now, or when a reader's thread has the bytes. */
void fan_request_answer(struct fan_node *node, const struct fan_transport_event *event,
                        uint64_t now_ns);

#endif
