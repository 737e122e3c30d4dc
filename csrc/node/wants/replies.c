#include "replies.h"

#include <errno.h>
#include <stdlib.h>

#include "../machine/shared.h"

enum { OF_PACK = 0 }; /* the token of a pack's reply; a frame's is its number + 1 */

void fan_reply_refuse(struct fan_replies *replies, uint32_t rank,
                      const struct fan_fetch_request *request, int error)
{
    struct fan_transport *transport = replies->ranks->transport;
    if (!fan_ranks_can_reach(replies->ranks, rank))
        return;
    fan_add64(&replies->refused, 1);
    transport->refuse(transport->context, rank, request, error);
}

/* Sends bytes. Returns whether the transport took the reply. */
static bool reply(struct fan_replies *replies, uint32_t rank,
                  const struct fan_fetch_request *request, const void *bytes, uint64_t token)
{
    struct fan_transport *transport = replies->ranks->transport;
    if (!fan_ranks_can_reach(replies->ranks, rank))
        return false;
    int rc = transport->reply(transport->context, rank, request, bytes, token);
    if (rc < 0) {
        fan_reply_refuse(replies, rank, request, -rc);
        return false;
    }
    replies->under_way++;
    fan_add64(&replies->served, 1);
    fan_add64(&replies->served_bytes, request->bytes);
    return true;
}

void fan_reply(struct fan_replies *replies, uint32_t rank, const struct fan_fetch_request *request,
               const void *bytes)
{
    reply(replies, rank, request, bytes, OF_PACK);
}

void fan_reply_from_frame(struct fan_replies *replies, uint32_t rank,
                          const struct fan_fetch_request *request, uint32_t id, uint64_t start)
{
    const char *bytes = fan_blockcache_data(replies->cache, id);
    if (reply(replies, rank, request, bytes + (request->offset - start), (uint64_t)id + 1))
        replies->cache->frames[id].sending++;
}

void fan_reply_all(struct fan_replies *replies, struct fan_asked **asked, uint32_t id,
                   uint64_t start)
{
    while (*asked != NULL) {
        struct fan_asked *first = *asked;
        *asked = first->next;
        if (id != FAN_NO_FRAME)
            fan_reply_from_frame(replies, first->rank, &first->request, id, start);
        else
            fan_reply_refuse(replies, first->rank, &first->request, ENOENT);
        free(first);
    }
}

void fan_reply_sent(struct fan_replies *replies, uint64_t token)
{
    replies->under_way--;
    if (token != OF_PACK)
        replies->cache->frames[token - 1].sending--;
}
