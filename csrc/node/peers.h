/*
 * The end of the job among the ranks: each tells the others when it needs nothing more, and serves
 * them until all have said so or are lost. Who says nothing is asked; who does not answer is lost.
 */
#ifndef FAN_NODE_PEERS_H
#define FAN_NODE_PEERS_H

#include <stdint.h>

#include "machine/transport.h"

struct fan_node;

enum fan_notice {
    FAN_NOTICE_FINISHED = 1,
    FAN_NOTICE_PING = 2,
    FAN_NOTICE_PONG = 3
};

/* A NOTICE event. */
void fan_peers_notice(struct fan_node *node, const struct fan_transport_event *event);

/* Announces the end once it is asked for, then asks the silent ones. */
void fan_peers_advance(struct fan_node *node, uint64_t now_ns);

/* When that is to be called again at the latest. */
uint64_t fan_peers_next_ns(const struct fan_node *node);

#endif
