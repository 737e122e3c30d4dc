/*
 * Messages between daemons: the outbox, from which the node thread sends, and the inbox, from which
 * any caller takes. Any thread may hold their lock, but only for a moment.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../machine/queue.h"
#include "../machine/transport.h"

struct fan_ranks;

/* posted: the number of messages in the outbox and in `going`, atomic. going: messages that the
 * thread has taken from the outbox to send; only the thread uses it. fd: an eventfd, readable while
 * the inbox is not empty. open: whether messages are accepted. The lock guards the outbox, the
 * inbox and `open`. */
struct fan_messages {
    pthread_mutex_t lock;
    struct fan_queue outbox;
    struct fan_queue inbox;
    struct fan_queue going;
    uint32_t posted;
    int fd;
    bool made;
    bool open;
};

/* Returns 0 or -errno. */
int fan_messages_init(struct fan_messages *messages);

/* Frees all messages that were not taken. Accepts a zeroed struct. */
void fan_messages_fini(struct fan_messages *messages);

/* Starts, or stops, accepting messages. */
void fan_messages_admit(struct fan_messages *messages);
void fan_messages_refuse(struct fan_messages *messages);

/* Copies a message of `bytes` for a rank; the thread will send it. Returns 0, -ENOMEM, -EMSGSIZE,
 * -EINVAL: no other rank; -EREMOTEIO: the rank is lost; -ESHUTDOWN: messages are not accepted. */
int fan_messages_post(struct fan_messages *messages, const struct fan_ranks *ranks, uint32_t rank,
                      const void *data, uint64_t bytes);

/* Takes the next received message. Parameters and results are those of fan_node_take (node.h). */
int64_t fan_messages_take(struct fan_messages *messages, void *to, uint64_t room, uint32_t *rank,
                          uint64_t *needed);

/* Handles a MESSAGE event. Only the node thread calls this function and those below. */
void fan_messages_come(struct fan_messages *messages, struct fan_ranks *ranks,
                       const struct fan_transport_event *event, uint64_t now_ns);

/* Passes the posted messages to the transport. Returns whether it took any. */
bool fan_messages_send(struct fan_messages *messages, struct fan_ranks *ranks);

/* Returns whether there are posted messages that the transport has not taken yet. */
bool fan_messages_left(const struct fan_messages *messages);
