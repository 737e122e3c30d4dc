#include "replies.h"

#include <errno.h>
#include <stdlib.h>

#include "inner.h"
#include "machine/shared.h"

enum { OF_PACK = 0 }; /* the token; of a frame it is the frame's number and 1 */

static bool can_be_answered(const struct fan_node *node, uint32_t rank)
{
    return !node->broken && !fan_ranks_is_lost(&node->ranks, rank);
}

void fan_reply_refuse(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
                      int error)
{
    struct fan_transport *transport = node->transport;
    if (!can_be_answered(node, rank))
        return;
    fan_add64(&node->stats.refused, 1);
    transport->refuse(transport->context, rank, request, error);
}

/* Whether it is sent. */
static bool reply(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
                  const void *bytes, uint64_t token)
{
    struct fan_transport *transport = node->transport;
    if (!can_be_answered(node, rank))
        return false;
    int rc = transport->reply(transport->context, rank, request, bytes, token);
    if (rc < 0) {
        fan_reply_refuse(node, rank, request, -rc);
        return false;
    }
    node->replying++;
    fan_add64(&node->stats.served, 1);
    fan_add64(&node->stats.served_bytes, request->bytes);
    return true;
}

void fan_reply(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
               const void *bytes)
{
    reply(node, rank, request, bytes, OF_PACK);
}

void fan_reply_from_frame(struct fan_node *node, uint32_t rank,
                          const struct fan_fetch_request *request, uint32_t id)
{
    if (reply(node, rank, request, fan_blockcache_data(&node->cache, id), (uint64_t)id + 1))
        node->cache.frames[id].sending++;
}

void fan_reply_all(struct fan_node *node, struct fan_asked **asked, uint32_t id)
{
    while (*asked != NULL) {
        struct fan_asked *first = *asked;
        *asked = first->next;
        if (id != FAN_NO_FRAME)
            fan_reply_from_frame(node, first->rank, &first->request, id);
        else
            fan_reply_refuse(node, first->rank, &first->request, ENOENT);
        free(first);
    }
}

void fan_reply_sent(struct fan_node *node, uint64_t token)
{
    node->replying--;
    if (token != OF_PACK)
        node->cache.frames[token - 1].sending--;
}
