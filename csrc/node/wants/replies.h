/*
 * Answers to other ranks. The sent bytes stay in place until FAN_EVENT_SENT arrives: packs stay
 * mapped until the end, and a cache block is not evicted meanwhile.
 */
#pragma once

#include <stdint.h>

#include "../cache/blockcache.h"
#include "flights.h"
#include "../ranks/ranks.h"

/* under_way: the number of replies whose bytes are not sent yet. The other counts are totals since
 * the start. All are relaxed atomics that the thread writes. */
struct fan_replies {
    struct fan_ranks *ranks;
    struct fan_blockcache *cache;
    uint64_t under_way;
    uint64_t served;
    uint64_t served_bytes;
    uint64_t refused;
};

/* fan_reply sends bytes of a mapped pack, fan_reply_from_frame those of a frame of the cache whose
 * first byte is at `start` of the pack, fan_reply_refuse the reason why there are none. */
void fan_reply(struct fan_replies *replies, uint32_t rank, const struct fan_fetch_request *request,
               const void *bytes);
void fan_reply_from_frame(struct fan_replies *replies, uint32_t rank,
                          const struct fan_fetch_request *request, uint32_t id, uint64_t start);
void fan_reply_refuse(struct fan_replies *replies, uint32_t rank,
                      const struct fan_fetch_request *request, int error);

/* Answers all requests of a list and empties it. id: the frame with the bytes, which begins at
 * `start` of the pack; FAN_NO_FRAME: they did not arrive. */
void fan_reply_all(struct fan_replies *replies, struct fan_asked **asked, uint32_t id,
                   uint64_t start);

/* Call it when a reply was sent. token: from the event. */
void fan_reply_sent(struct fan_replies *replies, uint64_t token);
