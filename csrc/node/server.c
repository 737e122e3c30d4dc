#include "server.h"

#include <errno.h>
#include <stdlib.h>

#include "inner.h"
#include "shared.h"

/* A request whose bytes are being read. */
struct serving {
    struct fan_reading reading;
    const struct fan_mounts *mounts;
    struct fan_fetch_request request;
    uint32_t rank;
};

static void refuse(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
                   int error)
{
    struct fan_transport *transport = node->transport;
    fan_add64(&node->stats.refused, 1);
    transport->refuse(transport->context, rank, request, error);
}

/* rc: 0, or why there are no bytes. */
static void answer(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
                   int rc)
{
    struct fan_transport *transport = node->transport;
    if (node->broken || fan_ranks_is_lost(&node->ranks, rank))
        return;
    if (rc == 0)
        rc = transport->reply(transport->context, rank, request,
                              fan_mounts_bytes(&node->mounts, request), ++node->reply_token);
    if (rc < 0) {
        refuse(node, rank, request, -rc);
        return;
    }
    node->replying++;
    fan_add64(&node->stats.served, 1);
    fan_add64(&node->stats.served_bytes, request->bytes);
}

/* What was not begun when the node stops is "not here" to whoever asked. */
static void serving_read(struct fan_node *node, struct fan_reading *reading)
{
    struct serving *serving = (struct serving *)reading;
    int rc = reading->error == -ECANCELED ? -ENOENT : reading->error;
    answer(node, serving->rank, &serving->request, rc);
    free(serving);
}

static int read_serving(struct fan_reading *reading)
{
    const struct serving *serving = (const struct serving *)reading;
    return fan_mounts_read(serving->mounts, &serving->request);
}

/* Has the bytes of a request read by another thread. 0, -ESHUTDOWN (the node stops) or -errno. */
static int read_apart(struct fan_node *node, const struct fan_transport_event *event)
{
    struct serving *serving = malloc(sizeof(*serving));
    if (serving == NULL)
        return -ENOMEM;
    *serving = (struct serving){.reading = {.read = read_serving, .done = serving_read},
                                .mounts = &node->mounts,
                                .request = event->request,
                                .rank = event->rank};
    int rc = fan_readers_give(&node->disk, &serving->reading);
    if (rc != 0)
        free(serving);
    return rc;
}

void fan_server_answer(struct fan_node *node, const struct fan_transport_event *event)
{
    const struct fan_fetch_request *request = &event->request;
    int rc = fan_mounts_admit(&node->mounts, request);
    if (rc == 0 && !fan_mounts_is_in_memory(&node->mounts, request)) {
        int apart = read_apart(node, event);
        if (apart == 0)
            return;
        rc = apart == -ESHUTDOWN ? -ENOENT : 0;
    }
    if (rc == 0)
        rc = fan_mounts_read(&node->mounts, request);
    answer(node, event->rank, request, rc);
}
