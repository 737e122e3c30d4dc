/*
 * The small messages between ranks: requests, notices and refusals, and the heads of mail, the
 * messages between daemons. Fields have a fixed width and one byte order, and are checked before
 * use. Does not use MPI.
 *
 * A refusal is sent in place of the requested bytes. The receiver recognises it by its length,
 * which is never that of the requested bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../node/machine/transport.h"

enum { FAN_WIRE_MAGIC = 0x46414e57 };

/* The MPI tags: one for requests and notices, one for mail, and one for each answer. */
enum { FAN_TAG_NOTES = 0, FAN_TAG_MAIL = 1, FAN_TAG_FIRST_ANSWER = 2 };

enum fan_wire_kind {
    FAN_WIRE_REQUEST = 1,
    FAN_WIRE_NOTICE = 2,
    FAN_WIRE_REFUSAL = 3,
    FAN_WIRE_MAIL = 4
};

struct fan_wire_head {
    uint32_t magic;
    uint16_t version;
    uint16_t kind;
};

/* A request uses all fields except `notice`; a notice uses only that. Unused fields are 0. */
struct fan_wire_message {
    struct fan_wire_head head;
    uint32_t tag;
    uint32_t bytes;
    uint64_t record;
    uint64_t offset;
    uint32_t mount;
    uint32_t pack;
    uint32_t notice;
    uint32_t urgency;
};

/* error: an errno. The first byte of `longer` is sent only in answer to a fetch of 16 bytes or
 * fewer. */
struct fan_wire_refusal {
    struct fan_wire_head head;
    uint32_t tag;
    uint32_t error;
    uint8_t longer[8];
};

/* number: how many messages the sender sent to this rank before. checksum: of the fields before it
 * and of the message's `bytes`. */
struct fan_wire_mail {
    struct fan_wire_head head;
    uint64_t bytes;
    uint64_t number;
    uint64_t checksum;
};

_Static_assert(sizeof(struct fan_wire_message) == 48, "fixed on the wire");
_Static_assert(sizeof(struct fan_wire_mail) == sizeof(((struct fan_message *)0)->head), "fits");
_Static_assert(offsetof(struct fan_message, data) ==
               offsetof(struct fan_message, head) + sizeof(struct fan_wire_mail), "in one piece");
_Static_assert(offsetof(struct fan_wire_refusal, longer) == 16, "fixed on the wire");

struct fan_wire_message fan_wire_request(const struct fan_fetch_request *request, uint32_t tag);
struct fan_wire_message fan_wire_notice(uint32_t notice);

/* Parses a received message of `bytes`: fills the kind, and the request or the notice, of `event`.
 * tag_max: the greatest tag that a reply may have. Returns 0, or -EPROTO: ill-formed. */
int fan_wire_read(const void *data, size_t bytes, uint32_t tag_max,
                  struct fan_transport_event *event);

/* Writes the head of a message to be sent. */
void fan_wire_seal(struct fan_message *message, uint64_t number);

/* Checks that a received message, `bytes` long with its head, is complete and has the number
 * `number`. Returns 0 or -EPROTO. */
int fan_wire_open(const struct fan_message *message, size_t bytes, uint64_t number);

struct fan_wire_refusal fan_wire_refuse(uint32_t tag, int error);

/* Returns the length of a refusal of a fetch of `fetch_bytes`: 16 or 17, and never
 * `fetch_bytes`. */
static inline uint32_t fan_wire_refusal_bytes(uint32_t fetch_bytes)
{
    uint32_t base = offsetof(struct fan_wire_refusal, longer);
    return fetch_bytes > base ? base : base + 1;
}

/* Checks the answer to a fetch of `fetch_bytes`, which is `bytes` of `data`. Returns 0 if it is the
 * requested bytes, the refusal's -errno, or -EPROTO. */
int fan_wire_answer(const void *data, size_t bytes, uint32_t fetch_bytes, uint32_t tag);
