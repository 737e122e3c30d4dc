/*
 * What other ranks ask for that this node keeps in its block cache for all of them: its share of
 * what is on no disk (storage/share.h). A block that is not there is read from the shared file
 * system first. While its bytes are sent it is not evicted.
 */
#ifndef FAN_NODE_LEND_H
#define FAN_NODE_LEND_H

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

/* Answers a request, which is for bytes that there are, from the block cache, at once or when they
 * have come. Whether it does. */
bool fan_lend(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
              uint64_t now_ns);

#endif
