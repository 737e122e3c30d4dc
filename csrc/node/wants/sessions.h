/*
 * The sessions of this node's clients, and the wants of their pins. A want is a pin in WANTED that
 * the daemon has seen. It ends when the pin becomes HELD or FAILED, or when its session ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../../format/trace_format.h"
#include "../cache/blockcache.h"
#include "../cache/eviction.h"
#include "../machine/shared.h"

struct fan_flight;

/* One want for each pin. part: `from` is the granule that the client needs first (cache_format.h).
 * flight: the flight that will answer it, together with the other wants of the same block. */
struct fan_want {
    uint64_t file;
    uint64_t block;
    struct fan_piece part;
    uint64_t since_ns;
    struct fan_flight *flight;
    struct fan_want *previous;
    struct fan_want *next;
};

/* asked: for each session, one bit for each pin that is a want. failures: the number of wants that
 * failed; a relaxed atomic. */
struct fan_sessions {
    struct fan_segment *segment;
    struct fan_live live;
    bool *taken;
    uint64_t *asked;
    struct fan_want *wants;
    uint64_t failures;
};

/* Returns 0 or -ENOMEM. */
int fan_sessions_init(struct fan_sessions *sessions, struct fan_segment *segment);
void fan_sessions_fini(struct fan_sessions *sessions);

/* Opens a free session. Returns its number, -EAGAIN if all are open, or -ENOMEM. */
int fan_session_open(struct fan_sessions *sessions, uint32_t pid);

/* Ends a session with all its wants, pins and open files. Does nothing if it is not open. */
void fan_session_close(struct fan_sessions *sessions, struct fan_eviction *eviction,
                       uint32_t session);

/* Returns one bit for each session, of the 64 from 64 * `word` on, that rang since the last call;
 * clears these bits. Pairs with the ringing of a client, which comes after it has set its pin to
 * WANTED. */
static inline uint64_t fan_sessions_take_rung(struct fan_sessions *sessions, uint32_t word)
{
    uint64_t *field = &sessions->segment->header->wanted_sessions[word];
    return fan_relaxed64(field) != 0 ? fan_take64(field) : 0;
}

/* Call it before you look at the pins of a session: clears its `wanted`. Returns whether the
 * session is open. */
bool fan_session_take_wanted(struct fan_sessions *sessions, uint32_t session);

/* Makes a want for the next pin, from number `pin` on, that is WANTED and was not seen yet, and
 * sets `pin` to the number after it. Returns NULL if there is none. */
struct fan_want *fan_session_next_want(struct fan_sessions *sessions, uint32_t session,
                                       unsigned *pin, uint64_t now_ns);

/* Fails every WANTED pin, seen or not, with EREMOTEIO. */
void fan_sessions_fail_all(struct fan_sessions *sessions);

/* End a want that is in no flight any more: grant sets the pin to HELD with the frame, fail to
 * FAILED with an errno. */
void fan_want_grant(struct fan_sessions *sessions, struct fan_want *want, uint32_t id,
                    enum fan_stall_source source);
void fan_want_fail(struct fan_sessions *sessions, struct fan_want *want, int error);
