/*
 * The interface of a transport, which the node daemon calls to fetch bytes of a pack from another
 * rank, to answer such requests, and to pass small notices and messages. Implemented by
 * csrc/transport over MPI, and by a loopback in tests. Every function is called by one thread,
 * never blocks, and returns 0, a count or -errno.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "queue.h"

/* cffi: begin */
enum { FAN_WIRE_VERSION = 3 }; /* the version of the messages between ranks */
/* cffi: end */

enum { FAN_NO_RANK = UINT32_MAX };

/* The urgency of a request. DEMAND: a client waits for the bytes; such requests come first in every
 * queue. */
enum fan_urgency { FAN_DEMAND = 0, FAN_AHEAD = 1, FAN_URGENCIES = 2 };

/* `bytes` at `offset` of a pack. record: the record to which the bytes belong, for its damage mark.
 */
struct fan_fetch_request {
    uint32_t mount;
    uint32_t pack;
    uint64_t record;
    uint64_t offset;
    uint32_t bytes;
    uint32_t tag;     /* set by the transport; unique among the outstanding ones of two ranks */
    uint32_t urgency; /* enum fan_urgency */
};

enum { FAN_MESSAGE_MAX_BYTES = 4194304 };

/* A message of one daemon to another, from malloc. Its current owner frees it and may use `link`.
 * rank: the receiver, or the sender. The transport uses `error` and `head`, and sends the head and
 * the data in one piece. */
struct fan_message {
    struct fan_queued link;
    uint64_t bytes;
    uint32_t rank;
    int32_t error;
    uint64_t head[4];
    uint8_t data[];
};

enum fan_transport_event_kind {
    FAN_EVENT_FETCHED,   /* token; error: 0, -EIO (damaged there), -ENOENT (not there) ... */
    FAN_EVENT_CANCELLED, /* token: nothing more will be written to its memory */
    FAN_EVENT_REQUEST,   /* rank, request: answer with reply or refuse */
    FAN_EVENT_NOTICE,    /* rank, notice */
    FAN_EVENT_SENT,      /* token of a reply: its memory may be freed */
    FAN_EVENT_MESSAGE    /* rank; error: 0, and the caller owns `message`; or a message is lost */
};

struct fan_transport_event {
    enum fan_transport_event_kind kind;
    uint32_t rank;
    int error;
    uint32_t notice;
    uint64_t token;
    struct fan_fetch_request request;
    struct fan_message *message;
};

struct fan_transport {
    void *context;
    uint32_t rank;
    uint32_t world_size;

    /* Posts a receive into `to`, then asks `rank`. A FETCHED event with `token` follows; the
     * transport itself never gives up. */
    int (*fetch)(void *context, uint32_t rank, const struct fan_fetch_request *request, void *to,
                 uint64_t token);

    /* Asks to give up the receive of `token`. FETCHED or CANCELLED follows, but not before the
     * bytes on their way have arrived. */
    int (*cancel)(void *context, uint64_t token);

    /* Answers a request with its bytes, which must stay in place until the SENT event with
     * `token`. */
    int (*reply)(void *context, uint32_t rank, const struct fan_fetch_request *request,
                 const void *from, uint64_t token);

    /* Refuses a request: the asking rank's FETCHED event has -error. */
    int (*refuse)(void *context, uint32_t rank, const struct fan_fetch_request *request, int error);

    /* Sends a number, which arrives as a NOTICE event. */
    int (*notify)(void *context, uint32_t rank, uint32_t notice);

    /* Takes over a message and sends it to its rank. Messages from one rank arrive in order. After
     * -errno the caller still owns the message. */
    int (*send)(void *context, struct fan_message *message);

    /* Makes progress and fills up to `count` events. Returns the number filled, or -errno: the
     * transport is broken for good. */
    int (*poll)(void *context, struct fan_transport_event *events, int count);

    /* Makes every ring of another rank increment `doorbell` and interrupt a futex wait of the
     * calling thread, which is the one that calls poll from then on. Returns 0, or -errno: this
     * rank hears no rings. */
    int (*listen)(void *context, uint32_t *doorbell);

    /* Rings the ranks to which something was sent since the last call, if they may sleep. sleeps:
     * whether this rank sleeps at once if it finds nothing to do, so that it must always be rung.
     */
    void (*ring)(void *context, bool sleeps);

    /* Rings like `ring`, and rings also all ranks that owe an answer: the first ring may be lost.
     */
    void (*ring_again)(void *context, bool sleeps);

    /* Returns whether every other rank has rung this one at least once, so that this rank need not
     * look for messages by the clock. */
    bool (*is_rung)(const void *context);

    /* Returns the number of this rank's outstanding operations, including messages that are not
     * sent yet. Wait for them before you close the transport. */
    unsigned (*pending)(void *context);

    void (*close)(void *context);
};
