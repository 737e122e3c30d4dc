/*
 * Answers to other ranks. Bytes that are sent stay in place until FAN_EVENT_SENT comes: those of a
 * pack are mapped until the end, a block of the cache is not evicted meanwhile.
 */
#ifndef FAN_NODE_REPLIES_H
#define FAN_NODE_REPLIES_H

#include <stdint.h>

#include "../cache/blockcache.h"
#include "flights.h"
#include "../ranks/ranks.h"

/* under_way: replies whose bytes are not sent yet. The others count since the start; relaxed
 * atomics, which the thread writes. */
struct fan_replies {
    struct fan_ranks *ranks;
    struct fan_blockcache *cache;
    uint64_t under_way;
    uint64_t served;
    uint64_t served_bytes;
    uint64_t refused;
};

/* Sends bytes of a mapped pack, or those that a frame of the cache holds; or says why not. */
void fan_reply(struct fan_replies *replies, uint32_t rank, const struct fan_fetch_request *request,
               const void *bytes);
void fan_reply_from_frame(struct fan_replies *replies, uint32_t rank,
                          const struct fan_fetch_request *request, uint32_t id);
void fan_reply_refuse(struct fan_replies *replies, uint32_t rank,
                      const struct fan_fetch_request *request, int error);

/* Answers all of a list, which is empty then. id: the frame where the block is, FAN_NO_FRAME: it
 * did not come. */
void fan_reply_all(struct fan_replies *replies, struct fan_asked **asked, uint32_t id);

/* A reply was sent. token: of the event. */
void fan_reply_sent(struct fan_replies *replies, uint64_t token);

#endif
