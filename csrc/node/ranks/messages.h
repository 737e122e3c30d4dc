/*
 * Messages between daemons, on their way through this one: those posted, which the thread sends,
 * and those that came, which somebody takes. Their lock is held for moments, by any thread.
 */
#ifndef FAN_NODE_MESSAGES_H
#define FAN_NODE_MESSAGES_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "../machine/queue.h"
#include "../machine/transport.h"

struct fan_ranks;

/* posted: atomic, messages in the outbox and in `going`. going: of the thread alone, taken from the
 * outbox to be sent. fd: an eventfd, readable while the inbox has something. open: messages are
 * accepted. The outbox, the inbox and `open` are under the lock. */
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

/* 0 or -errno. */
int fan_messages_init(struct fan_messages *messages);

/* Frees all that nobody took. Accepts what was not made. */
void fan_messages_fini(struct fan_messages *messages);

/* Messages are accepted from now on; no more. */
void fan_messages_admit(struct fan_messages *messages);
void fan_messages_refuse(struct fan_messages *messages);

/* Copies `bytes` of a message for a rank, which the thread is to send. 0, -ENOMEM, -EMSGSIZE,
 * -EINVAL: no other rank; -EREMOTEIO: it is lost; -ESHUTDOWN: messages are not accepted. */
int fan_messages_post(struct fan_messages *messages, const struct fan_ranks *ranks, uint32_t rank,
                      const void *data, uint64_t bytes);

/* Takes the next message that came, as fan_node_take (node.h) says. */
int64_t fan_messages_take(struct fan_messages *messages, void *to, uint64_t room, uint32_t *rank,
                          uint64_t *needed);

/* The rest is the thread's. A MESSAGE event. */
void fan_messages_come(struct fan_messages *messages, struct fan_ranks *ranks,
                       const struct fan_transport_event *event, uint64_t now_ns);

/* Gives the transport what was posted. Whether there was anything that it took. */
bool fan_messages_send(struct fan_messages *messages, struct fan_ranks *ranks);

/* Whether there are some that the transport has not taken yet. */
bool fan_messages_left(const struct fan_messages *messages);

#endif
