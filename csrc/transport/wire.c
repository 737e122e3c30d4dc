#include "wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

enum { ERRNO_MAX = 4095, LANES = 4, LANE_BYTES = 8, STRIPE_BYTES = LANES * LANE_BYTES };

/* Odd factors with about half of their bits set. */
static const uint64_t mixers[2] = {0x9d3f5ac1b7e46d2b, 0xc2b8e5791d4fa637};

static struct fan_wire_head head_of(enum fan_wire_kind kind)
{
    struct fan_wire_head head = {FAN_WIRE_MAGIC, FAN_WIRE_VERSION, (uint16_t)kind};
    return head;
}

static bool is_ours(struct fan_wire_head head)
{
    return head.magic == FAN_WIRE_MAGIC && head.version == FAN_WIRE_VERSION;
}

struct fan_wire_message fan_wire_request(const struct fan_fetch_request *request, uint32_t tag)
{
    struct fan_wire_message message = {
        .head = head_of(FAN_WIRE_REQUEST),
        .tag = tag,
        .bytes = request->bytes,
        .record = request->record,
        .offset = request->offset,
        .mount = request->mount,
        .pack = request->pack,
        .urgency = request->urgency,
    };
    return message;
}

struct fan_wire_message fan_wire_notice(uint32_t notice)
{
    struct fan_wire_message message = {.head = head_of(FAN_WIRE_NOTICE), .notice = notice};
    return message;
}

static int read_request(const struct fan_wire_message *message, uint32_t tag_max,
                        struct fan_transport_event *event)
{
    bool has_range = message->bytes > 0 && message->bytes <= INT32_MAX &&
                     message->offset <= UINT64_MAX - message->bytes;
    if (!has_range || message->urgency >= FAN_URGENCIES || message->tag < FAN_TAG_FIRST_ANSWER ||
        message->tag > tag_max)
        return -EPROTO;
    event->kind = FAN_EVENT_REQUEST;
    event->request.mount = message->mount;
    event->request.pack = message->pack;
    event->request.record = message->record;
    event->request.offset = message->offset;
    event->request.bytes = message->bytes;
    event->request.tag = message->tag;
    event->request.urgency = message->urgency;
    return 0;
}

int fan_wire_read(const void *data, size_t bytes, uint32_t tag_max,
                  struct fan_transport_event *event)
{
    struct fan_wire_message message;
    if (bytes != sizeof(message))
        return -EPROTO;
    memcpy(&message, data, sizeof(message));
    if (!is_ours(message.head))
        return -EPROTO;
    if (message.head.kind == FAN_WIRE_REQUEST)
        return read_request(&message, tag_max, event);
    if (message.head.kind != FAN_WIRE_NOTICE || message.urgency != 0)
        return -EPROTO;
    event->kind = FAN_EVENT_NOTICE;
    event->notice = message.notice;
    return 0;
}

struct fan_wire_refusal fan_wire_refuse(uint32_t tag, int error)
{
    struct fan_wire_refusal refusal = {
        .head = head_of(FAN_WIRE_REFUSAL),
        .tag = tag,
        .error = error > 0 && error <= ERRNO_MAX ? (uint32_t)error : EPROTO,
    };
    return refusal;
}

int fan_wire_answer(const void *data, size_t bytes, uint32_t fetch_bytes, uint32_t tag)
{
    if (bytes == fetch_bytes)
        return 0;
    struct fan_wire_refusal refusal = {0};
    if (bytes != fan_wire_refusal_bytes(fetch_bytes))
        return -EPROTO;
    memcpy(&refusal, data, bytes);
    if (!is_ours(refusal.head) || refusal.head.kind != FAN_WIRE_REFUSAL || refusal.tag != tag)
        return -EPROTO;
    return refusal.error > 0 && refusal.error <= ERRNO_MAX ? -(int)refusal.error : -EPROTO;
}

/* ---- mail ---- */

static uint64_t mixed(uint64_t sum, uint64_t word)
{
    sum ^= word * mixers[0];
    return (sum << 29 | sum >> 35) * mixers[1];
}

/* Returns a checksum, computed in four lanes at once. It detects bytes that are missing or belong
 * to another message, not bytes that an attacker chose. */
static uint64_t sum_of(const uint8_t *data, uint64_t bytes, uint64_t seed)
{
    uint64_t lanes[LANES] = {seed, seed + 1, seed + 2, seed + 3};
    uint64_t words[LANES];
    uint64_t at = 0;
    for (; bytes - at >= STRIPE_BYTES; at += STRIPE_BYTES) {
        memcpy(words, data + at, STRIPE_BYTES);
        for (unsigned i = 0; i < LANES; i++)
            lanes[i] = mixed(lanes[i], words[i]);
    }
    memset(words, 0, sizeof(words));
    memcpy(words, data + at, bytes - at);
    uint64_t sum = bytes;
    for (unsigned i = 0; i < LANES; i++)
        sum = mixed(sum, mixed(lanes[i], words[i]));
    return sum ^ sum >> 32;
}

static uint64_t checksum_of(const struct fan_wire_mail *mail, const struct fan_message *message)
{
    uint64_t seed = sum_of((const uint8_t *)mail, offsetof(struct fan_wire_mail, checksum), 0);
    return sum_of(message->data, mail->bytes, seed);
}

void fan_wire_seal(struct fan_message *message, uint64_t number)
{
    struct fan_wire_mail mail = {
        .head = head_of(FAN_WIRE_MAIL), .bytes = message->bytes, .number = number};
    mail.checksum = checksum_of(&mail, message);
    memcpy(message->head, &mail, sizeof(mail));
}

int fan_wire_open(const struct fan_message *message, size_t bytes, uint64_t number)
{
    struct fan_wire_mail mail;
    memcpy(&mail, message->head, sizeof(mail));
    if (bytes < sizeof(mail) || !is_ours(mail.head) || mail.head.kind != FAN_WIRE_MAIL ||
        mail.bytes != bytes - sizeof(mail) || mail.number != number)
        return -EPROTO;
    return mail.checksum == checksum_of(&mail, message) ? 0 : -EPROTO;
}
