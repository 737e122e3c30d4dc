/*
 * Answers to other ranks. Bytes that are sent stay in place until FAN_EVENT_SENT comes: those of a
 * pack are mapped until the end, a block of the cache is not evicted meanwhile.
 */
#ifndef FAN_NODE_REPLIES_H
#define FAN_NODE_REPLIES_H

#include <stdint.h>

#include "machine/transport.h"

struct fan_node;

/* Another rank's request for a block that is on its way here. */
struct fan_asked {
    struct fan_asked *next;
    struct fan_fetch_request request;
    uint32_t rank;
};

/* Sends bytes of a mapped pack, or those that a frame of the cache holds; or says why not. */
void fan_reply(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
               const void *bytes);
void fan_reply_from_frame(struct fan_node *node, uint32_t rank,
                          const struct fan_fetch_request *request, uint32_t id);
void fan_reply_refuse(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
                      int error);

/* Answers all of a list, which is empty then. id: the frame where the block is, FAN_NO_FRAME: it
 * did not come. */
void fan_reply_all(struct fan_node *node, struct fan_asked **asked, uint32_t id);

/* A reply was sent. token: of the event. */
void fan_reply_sent(struct fan_node *node, uint64_t token);

#endif
