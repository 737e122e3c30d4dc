/* Answering other ranks: the bytes they ask for, straight from the mapped pack, or why not. */
#ifndef FAN_NODE_SERVER_H
#define FAN_NODE_SERVER_H

#include "transport.h"

struct fan_node;

void fan_server_answer(struct fan_node *node, const struct fan_transport_event *event);

#endif
