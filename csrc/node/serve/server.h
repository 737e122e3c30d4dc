/*
 * Answering other ranks: the bytes they ask for, straight from the mapped pack, or why not. What is
 * not in memory is read by a reader's thread meanwhile.
 */
#ifndef FAN_NODE_SERVER_H
#define FAN_NODE_SERVER_H

#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

void fan_server_answer(struct fan_node *node, const struct fan_transport_event *event,
                       uint64_t now_ns);

#endif
