#include "requests.h"

#include <errno.h>
#include <stdlib.h>

#include "../state/state.h"
#include "../wants/replies.h"
#include "../storage/keep.h"
#include "../storage/staged.h"
#include "../storage/marks.h"

/* The most requests that may wait for the shared file system. When there are more, that is slow,
 * and the asking rank does better to ask elsewhere. */
enum { FILLS_WAITING_MAX = 64 };

/* A request whose bytes are being read. */
struct serving {
    struct fan_reading reading;
    struct fan_mounts *mounts;
    struct fan_fetch_request request;
    uint32_t rank;
};

/* Sends an answer. rc: 0, or the -errno that says why there are no bytes. */
static void answer(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request,
                   int rc)
{
    if (rc == 0)
        fan_reply(&node->replies, rank, request, fan_staged_bytes(&node->mounts, request));
    else
        fan_reply_refuse(&node->replies, rank, request, -rc);
}

/* Answers when the reading is done. A reading that had not begun when the node stopped is answered
 * as "not here". */
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
    return fan_staged_read(serving->mounts, &serving->request);
}

static int fill_serving(struct fan_reading *reading)
{
    const struct serving *serving = (const struct serving *)reading;
    char *stored = NULL;
    int rc = fan_keep_record(serving->mounts, &serving->request, &stored);
    free(stored);
    return rc == -EIO || rc == 0 ? rc : -ENOENT;
}

static void filled(struct fan_node *node, struct fan_reading *reading);

/* Makes a reader's thread read the bytes of a request. Returns 0, -ESHUTDOWN (the node stops) or
 * -errno. */
static int give(struct fan_node *node, struct fan_readers *readers, struct fan_reading how,
                uint32_t rank, const struct fan_fetch_request *request)
{
    struct serving *serving = malloc(sizeof(*serving));
    if (serving == NULL)
        return -ENOMEM;
    *serving = (struct serving){
        .reading = how, .mounts = &node->mounts, .request = *request, .rank = rank};
    int rc = fan_readers_give(readers, &serving->reading);
    if (rc != 0)
        free(serving);
    return rc;
}

static int read_apart(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request)
{
    const struct fan_reading how = {
        .urgency = request->urgency, .read = read_serving, .done = serving_read};
    return give(node, &node->disk, how, rank, request);
}

/* Fetches a record of this rank's share because another rank requests it. */
static int fill_apart(struct fan_node *node, uint32_t rank, const struct fan_fetch_request *request)
{
    const struct fan_reading how = {
        .urgency = request->urgency, .read = fill_serving, .done = filled};
    if (!fan_share_wants(&node->mounts, request) ||
        fan_readers_waiting(&node->shared) >= FILLS_WAITING_MAX)
        return -ENOENT;
    return give(node, &node->shared, how, rank, request);
}

/* Answers with bytes on this node. rc: 0, or the -errno that says why they are not here. */
static void answer_here(struct fan_node *node, uint32_t rank,
                        const struct fan_fetch_request *request, int rc)
{
    if (rc == 0 && !fan_staged_is_in_memory(&node->mounts, request)) {
        int apart = read_apart(node, rank, request);
        if (apart == 0)
            return;
        rc = apart == -ESHUTDOWN ? -ENOENT : 0;
    }
    if (rc == 0)
        rc = fan_staged_read(&node->mounts, request);
    answer(node, rank, request, rc);
}

/* Handles that a record of this rank's share was read from the shared file system. If the disk took
 * it, it is served like any other. If it is damaged, its blocks in the cache are dropped, because
 * they were not checked. */
static void filled(struct fan_node *node, struct fan_reading *reading)
{
    struct serving *serving = (struct serving *)reading;
    const struct fan_fetch_request *request = &serving->request;
    int rc = reading->error == -ECANCELED ? -ENOENT : reading->error;
    if (rc == 0)
        rc = fan_staged_admit(&node->mounts, request);
    if (fan_mounts_is_damaged(&node->mounts, request->mount, request->record))
        fan_blockcache_forget(&node->cache, fan_cache_file(request->mount, request->record),
                              &node->sessions.live);
    answer_here(node, serving->rank, request, rc);
    free(serving);
}

void fan_request_answer(struct fan_node *node, const struct fan_transport_event *event,
                        uint64_t now_ns)
{
    const struct fan_fetch_request *request = &event->request;
    int rc = fan_staged_admit(&node->mounts, request);
    if (rc == -ENOENT && (fill_apart(node, event->rank, request) == 0 ||
                          fan_request_answer_from_cache(node, event->rank, request, now_ns)))
        return;
    if (rc == -ENOENT) /* it may be here by now */
        rc = fan_staged_admit(&node->mounts, request);
    answer_here(node, event->rank, request, rc);
}
