#include "server.h"

#include "inner.h"
#include "shared.h"

static void refuse(struct fan_node *node, const struct fan_transport_event *event, int error)
{
    struct fan_transport *transport = node->transport;
    fan_add64(&node->stats.refused, 1);
    transport->refuse(transport->context, event->rank, &event->request, error);
}

void fan_server_answer(struct fan_node *node, const struct fan_transport_event *event)
{
    struct fan_transport *transport = node->transport;
    const char *from;
    int rc = fan_mounts_locate(&node->mounts, &event->request, &from);
    if (rc == 0)
        rc = transport->reply(transport->context, event->rank, &event->request, from,
                              ++node->reply_token);
    if (rc < 0) {
        refuse(node, event, -rc);
        return;
    }
    node->replying++;
    fan_add64(&node->stats.served, 1);
    fan_add64(&node->stats.served_bytes, event->request.bytes);
}
