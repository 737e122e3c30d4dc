#include "messages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ranks.h"
#include "../machine/shared.h"

/* Frees the messages of a list. The link is a message's first member, so both have the same
 * address. */
static void free_list(struct fan_queue *list)
{
    for (struct fan_queued *message; (message = fan_queue_take(list)) != NULL;)
        free(message);
}

int fan_messages_init(struct fan_messages *messages)
{
    messages->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (messages->fd < 0)
        return -errno;
    pthread_mutex_init(&messages->lock, NULL);
    messages->made = true;
    return 0;
}

void fan_messages_fini(struct fan_messages *messages)
{
    if (!messages->made)
        return;
    free_list(&messages->outbox);
    free_list(&messages->inbox);
    free_list(&messages->going);
    pthread_mutex_destroy(&messages->lock);
    close(messages->fd);
    messages->made = false;
}

static void set_open(struct fan_messages *messages, bool open)
{
    pthread_mutex_lock(&messages->lock);
    messages->open = open;
    pthread_mutex_unlock(&messages->lock);
}

void fan_messages_admit(struct fan_messages *messages)
{
    set_open(messages, true);
}

void fan_messages_refuse(struct fan_messages *messages)
{
    set_open(messages, false);
}

/* ---- sending ---- */

static int check(const struct fan_ranks *ranks, uint32_t rank, uint64_t bytes)
{
    if (rank >= ranks->world_size || rank == ranks->own_rank)
        return -EINVAL;
    if (bytes > FAN_MESSAGE_MAX_BYTES)
        return -EMSGSIZE;
    return fan_ranks_is_lost(ranks, rank) ? -EREMOTEIO : 0;
}

static int put_out(struct fan_messages *messages, struct fan_message *message)
{
    pthread_mutex_lock(&messages->lock);
    bool open = messages->open;
    if (open) {
        fan_queue_put(&messages->outbox, &message->link);
        __atomic_fetch_add(&messages->posted, 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&messages->lock);
    return open ? 0 : -ESHUTDOWN;
}

int fan_messages_post(struct fan_messages *messages, const struct fan_ranks *ranks, uint32_t rank,
                      const void *data, uint64_t bytes)
{
    int rc = check(ranks, rank, bytes);
    if (rc != 0)
        return rc;
    struct fan_message *message = malloc(sizeof(*message) + bytes);
    if (message == NULL)
        return -ENOMEM;
    message->rank = rank;
    message->bytes = bytes;
    message->error = 0;
    if (bytes > 0)
        memcpy(message->data, data, bytes);
    rc = put_out(messages, message);
    if (rc != 0)
        free(message);
    return rc;
}

static void fetch_outbox(struct fan_messages *messages)
{
    pthread_mutex_lock(&messages->lock);
    for (struct fan_queued *message; (message = fan_queue_take(&messages->outbox)) != NULL;)
        fan_queue_put(&messages->going, message);
    pthread_mutex_unlock(&messages->lock);
}

/* Sends a message. Returns whether the message is finished: it was sent, or will never be sent. */
static bool send_one(struct fan_ranks *ranks, struct fan_message *message)
{
    struct fan_transport *transport = ranks->transport;
    int rc = -EREMOTEIO;
    if (fan_ranks_can_reach(ranks, message->rank))
        rc = transport->send(transport->context, message);
    if (rc == 0)
        return true;
    if (fan_is_momentary(rc))
        return false;
    fan_ranks_lose(ranks, message->rank);
    free(message);
    return true;
}

bool fan_messages_send(struct fan_messages *messages, struct fan_ranks *ranks)
{
    bool any = false;
    if (!fan_messages_left(messages))
        return false;
    fetch_outbox(messages);
    for (struct fan_queued *message; (message = fan_queue_take(&messages->going)) != NULL;) {
        if (!send_one(ranks, (struct fan_message *)message)) {
            fan_queue_put_first(&messages->going, message);
            break;
        }
        __atomic_fetch_sub(&messages->posted, 1, __ATOMIC_RELAXED);
        any = true;
    }
    return any;
}

bool fan_messages_left(const struct fan_messages *messages)
{
    return fan_acquire32(&messages->posted) != 0;
}

/* ---- receiving ---- */

/* Makes the eventfd readable because the inbox is not empty. The caller holds the lock, which
 * guards both. */
static void raise_flag(const struct fan_messages *messages)
{
    const uint64_t one = 1;
    ssize_t written = write(messages->fd, &one, sizeof(one));
    (void)written; /* the eventfd counts to 1 only */
}

static void lower_flag(const struct fan_messages *messages)
{
    uint64_t count;
    ssize_t got = read(messages->fd, &count, sizeof(count));
    (void)got;
}

void fan_messages_come(struct fan_messages *messages, struct fan_ranks *ranks,
                       const struct fan_transport_event *event, uint64_t now_ns)
{
    if (event->error != 0) {
        fan_ranks_lose(ranks, event->rank);
        return;
    }
    if (fan_ranks_is_lost(ranks, event->rank)) {
        free(event->message);
        return;
    }
    fan_ranks_hear(ranks, event->rank, now_ns);
    event->message->rank = event->rank;
    pthread_mutex_lock(&messages->lock);
    if (messages->inbox.first == NULL)
        raise_flag(messages);
    fan_queue_put(&messages->inbox, &event->message->link);
    pthread_mutex_unlock(&messages->lock);
}

int64_t fan_messages_take(struct fan_messages *messages, void *to, uint64_t room, uint32_t *rank,
                          uint64_t *needed)
{
    pthread_mutex_lock(&messages->lock);
    struct fan_message *message = (struct fan_message *)messages->inbox.first;
    int64_t rc = message == NULL ? -EAGAIN : (int64_t)message->bytes;
    if (message != NULL && message->bytes > room) {
        *needed = message->bytes;
        rc = -ENOBUFS;
    }
    if (rc >= 0) {
        fan_queue_take(&messages->inbox);
        if (messages->inbox.first == NULL)
            lower_flag(messages);
    }
    pthread_mutex_unlock(&messages->lock);
    if (rc < 0)
        return rc;
    *rank = message->rank;
    if (rc > 0)
        memcpy(to, message->data, (size_t)rc);
    free(message);
    return rc;
}
