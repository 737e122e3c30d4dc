#include "loopback.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"

/* An event on its way to a rank. bytes: of an answer, copied when it was sent. sender: of a message
 * that counts as being sent until it is there. */
struct letter {
    struct fan_transport_event event;
    uint64_t due_ns;
    uint8_t *bytes;
    struct end *sender;
    struct letter *next;
};

/* A fetch of a rank, by its tag. */
struct posted {
    void *to;
    uint64_t token;
    bool used;
    bool cancelled;
};

enum { POSTED_MAX = 4096, EAGER_BYTES = 65536 };

struct end {
    struct fan_transport transport;
    struct loopback *loopback;
    struct loopback_knobs knobs;
    struct letter *letters; /* in order of arrival */
    unsigned sending;       /* messages of its own that are not there yet */
    struct posted posted[POSTED_MAX];
};

struct loopback {
    pthread_mutex_t lock;
    uint64_t late_bytes;
    uint32_t world_size;
    struct end ends[LOOPBACK_RANKS];
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct letter *send_letter(struct end *to, struct fan_transport_event event,
                                  const void *bytes, uint64_t due_ns)
{
    struct letter *letter = calloc(1, sizeof(*letter));
    CHECK(letter != NULL);
    letter->event = event;
    letter->due_ns = due_ns;
    if (bytes != NULL) {
        letter->bytes = malloc(event.request.bytes);
        CHECK(letter->bytes != NULL);
        memcpy(letter->bytes, bytes, event.request.bytes);
    }
    struct letter **at = &to->letters;
    while (*at != NULL)
        at = &(*at)->next;
    *at = letter;
    return letter;
}

static int fetch(void *context, uint32_t rank, const struct fan_fetch_request *request, void *to,
                 uint64_t token)
{
    struct end *own = context;
    struct loopback *loopback = own->loopback;
    if (atomic_load(&loopback->ends[rank].knobs.cut))
        return -ECONNRESET;
    pthread_mutex_lock(&loopback->lock);
    uint32_t tag = 0;
    while (tag < POSTED_MAX && own->posted[tag].used)
        tag++;
    CHECK(tag < POSTED_MAX);
    own->posted[tag] = (struct posted){.to = to, .token = token, .used = true};
    struct fan_transport_event event = {
        .kind = FAN_EVENT_REQUEST, .rank = own->transport.rank, .request = *request};
    event.request.tag = tag;
    if (!atomic_load(&loopback->ends[rank].knobs.deaf))
        send_letter(&loopback->ends[rank], event, NULL, 0);
    pthread_mutex_unlock(&loopback->lock);
    return 0;
}

static int cancel(void *context, uint64_t token)
{
    struct end *own = context;
    pthread_mutex_lock(&own->loopback->lock);
    for (uint32_t tag = 0; tag < POSTED_MAX; tag++) {
        struct posted *posted = &own->posted[tag];
        if (!posted->used || posted->token != token || posted->cancelled)
            continue;
        posted->cancelled = true;
        if (!atomic_load(&own->knobs.stubborn)) {
            posted->to = NULL;
            struct fan_transport_event event = {.kind = FAN_EVENT_CANCELLED, .token = token};
            send_letter(own, event, NULL, 0);
        }
    }
    pthread_mutex_unlock(&own->loopback->lock);
    return 0;
}

static void answer(struct end *own, uint32_t rank, const struct fan_fetch_request *request,
                   int error, const void *from)
{
    uint64_t due_ns = now_ns() + (uint64_t)atomic_load(&own->knobs.delay_us) * 1000;
    struct fan_transport_event event = {.kind = FAN_EVENT_FETCHED, .rank = own->transport.rank,
                                        .error = -error, .request = *request};
    send_letter(&own->loopback->ends[rank], event, from, due_ns);
}

static int reply(void *context, uint32_t rank, const struct fan_fetch_request *request,
                 const void *from, uint64_t token)
{
    struct end *own = context;
    int error = atomic_load(&own->knobs.refuse);
    pthread_mutex_lock(&own->loopback->lock);
    answer(own, rank, request, error, error != 0 ? NULL : from);
    struct fan_transport_event sent = {.kind = FAN_EVENT_SENT, .token = token};
    send_letter(own, sent, NULL, 0);
    pthread_mutex_unlock(&own->loopback->lock);
    return 0;
}

static int refuse(void *context, uint32_t rank, const struct fan_fetch_request *request, int error)
{
    struct end *own = context;
    pthread_mutex_lock(&own->loopback->lock);
    answer(own, rank, request, error, NULL);
    pthread_mutex_unlock(&own->loopback->lock);
    return 0;
}

static int notify(void *context, uint32_t rank, uint32_t notice)
{
    struct end *own = context;
    struct end *to = &own->loopback->ends[rank];
    if (atomic_load(&to->knobs.cut))
        return -ECONNRESET;
    pthread_mutex_lock(&own->loopback->lock);
    struct fan_transport_event event = {
        .kind = FAN_EVENT_NOTICE, .rank = own->transport.rank, .notice = notice};
    send_letter(to, event, NULL, 0);
    pthread_mutex_unlock(&own->loopback->lock);
    return 0;
}

/* Long ones leave when they are received, as with MPI. */
static int send_message(void *context, struct fan_message *message)
{
    struct end *own = context;
    struct end *to = &own->loopback->ends[message->rank];
    if (atomic_load(&to->knobs.cut))
        return -ECONNRESET;
    if (atomic_load(&own->knobs.short_of_memory))
        return -ENOMEM;
    pthread_mutex_lock(&own->loopback->lock);
    struct fan_transport_event event = {
        .kind = FAN_EVENT_MESSAGE, .rank = own->transport.rank, .message = message};
    struct letter *letter = send_letter(to, event, NULL, 0);
    letter->sender = message->bytes > EAGER_BYTES ? own : NULL;
    own->sending += letter->sender != NULL;
    pthread_mutex_unlock(&own->loopback->lock);
    return 0;
}

/* A message is there; or is said to be lost. */
static void deliver_message(struct end *own, struct letter *letter)
{
    struct fan_transport_event *event = &letter->event;
    if (letter->sender != NULL)
        letter->sender->sending--;
    if (!atomic_load(&own->knobs.garbled))
        return;
    free(event->message);
    event->message = NULL;
    event->error = -EPROTO;
}

/* Writes the bytes of an answer where they were wanted. False when nobody is to hear of it. */
static bool deliver(struct end *own, struct letter *letter)
{
    struct fan_transport_event *event = &letter->event;
    if (event->kind == FAN_EVENT_MESSAGE)
        deliver_message(own, letter);
    if (event->kind != FAN_EVENT_FETCHED)
        return true;
    struct posted *posted = &own->posted[event->request.tag];
    if (posted->cancelled && letter->bytes != NULL && posted->to != NULL)
        own->loopback->late_bytes += event->request.bytes;
    if (letter->bytes != NULL && posted->to != NULL)
        memcpy(posted->to, letter->bytes, event->request.bytes);
    event->token = posted->token;
    posted->used = false;
    return posted->to != NULL;
}

static int poll(void *context, struct fan_transport_event *events, int count)
{
    struct end *own = context;
    int filled = 0;
    if (atomic_load(&own->knobs.broken))
        return -EIO;
    pthread_mutex_lock(&own->loopback->lock);
    /* Looked at with the lock: a letter that was sent to a frozen rank must not come. */
    bool frozen = atomic_load(&own->knobs.frozen) != 0;
    uint64_t now = now_ns();
    struct letter **at = &own->letters;
    while (*at != NULL && filled < count && !frozen) {
        struct letter *letter = *at;
        if (letter->due_ns > now) {
            at = &letter->next;
            continue;
        }
        *at = letter->next;
        if (deliver(own, letter))
            events[filled++] = letter->event;
        free(letter->bytes);
        free(letter);
    }
    pthread_mutex_unlock(&own->loopback->lock);
    return filled;
}

/* Nobody rings here: every rank looks by the clock. */
static int listen_not(void *context, uint32_t *doorbell)
{
    (void)context;
    (void)doorbell;
    return -EOPNOTSUPP;
}

static void ring_not(void *context, bool sleeps)
{
    (void)context;
    (void)sleeps;
}

static bool is_rung(const void *context)
{
    (void)context;
    return false;
}

static unsigned pending(void *context)
{
    struct end *own = context;
    pthread_mutex_lock(&own->loopback->lock);
    unsigned count = own->sending;
    for (uint32_t tag = 0; tag < POSTED_MAX; tag++)
        count += own->posted[tag].used && own->posted[tag].to != NULL;
    pthread_mutex_unlock(&own->loopback->lock);
    return count;
}

static void close_end(void *context)
{
    CHECK(pending(context) == 0);
}

struct loopback *loopback_open(uint32_t world_size)
{
    struct loopback *loopback = calloc(1, sizeof(*loopback));
    CHECK(loopback != NULL && world_size <= LOOPBACK_RANKS);
    pthread_mutex_init(&loopback->lock, NULL);
    loopback->world_size = world_size;
    for (uint32_t rank = 0; rank < world_size; rank++) {
        struct end *end = &loopback->ends[rank];
        end->loopback = loopback;
        end->transport = (struct fan_transport){.context = end,
                                                .rank = rank,
                                                .world_size = world_size,
                                                .fetch = fetch,
                                                .cancel = cancel,
                                                .reply = reply,
                                                .refuse = refuse,
                                                .notify = notify,
                                                .send = send_message,
                                                .poll = poll,
                                                .listen = listen_not,
                                                .ring = ring_not,
                                                .ring_again = ring_not,
                                                .is_rung = is_rung,
                                                .pending = pending,
                                                .close = close_end};
    }
    return loopback;
}

void loopback_close(struct loopback *loopback)
{
    for (uint32_t rank = 0; rank < loopback->world_size; rank++) {
        while (loopback->ends[rank].letters != NULL) {
            struct letter *letter = loopback->ends[rank].letters;
            loopback->ends[rank].letters = letter->next;
            free(letter->bytes);
            free(letter->event.message);
            free(letter);
        }
    }
    pthread_mutex_destroy(&loopback->lock);
    free(loopback);
}

struct fan_transport *loopback_transport(struct loopback *loopback, uint32_t rank)
{
    return &loopback->ends[rank].transport;
}

struct loopback_knobs *loopback_knobs(struct loopback *loopback, uint32_t rank)
{
    return &loopback->ends[rank].knobs;
}

uint64_t loopback_late_bytes(struct loopback *loopback)
{
    pthread_mutex_lock(&loopback->lock);
    uint64_t bytes = loopback->late_bytes;
    pthread_mutex_unlock(&loopback->lock);
    return bytes;
}
