/*
 * The sessions of this node's clients, and what their pins want. A want is a pin in WANTED that the
 * daemon has seen; it ends with the pin HELD or FAILED, or with its session.
 */
#ifndef FAN_NODE_SESSIONS_H
#define FAN_NODE_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../format/trace_format.h"
#include "../cache/blockcache.h"
#include "../cache/eviction.h"
#include "../machine/shared.h"

struct fan_flight;

/* One for each pin. flight: what will answer it, with the other wants of the same block. */
struct fan_want {
    uint64_t file;
    uint64_t block;
    uint64_t since_ns;
    struct fan_flight *flight;
    struct fan_want *previous;
    struct fan_want *next;
};

/* asked: a bit for each pin of a session that is a want. failures: wants that were answered with
 * FAILED; a relaxed atomic. */
struct fan_sessions {
    struct fan_segment *segment;
    struct fan_live live;
    bool *taken;
    uint64_t *asked;
    struct fan_want *wants;
    uint64_t failures;
};

/* 0 or -ENOMEM. */
int fan_sessions_init(struct fan_sessions *sessions, struct fan_segment *segment);
void fan_sessions_fini(struct fan_sessions *sessions);

/* A free session made live: its number, or -EAGAIN. */
int fan_session_open(struct fan_sessions *sessions, uint32_t pid);

/* Undoes all that a session has. One that is not live is left alone. */
void fan_session_close(struct fan_sessions *sessions, struct fan_eviction *eviction,
                       uint32_t session);

/* Takes the sessions that rang since this was last called, of the 64 from 64 * `word` on: a bit for
 * each. Pairs with the ringing of a client, which comes after its pin is in WANTED. */
static inline uint64_t fan_sessions_take_rung(struct fan_sessions *sessions, uint32_t word)
{
    uint64_t *field = &sessions->segment->header->wanted_sessions[word];
    return fan_relaxed64(field) != 0 ? fan_take64(field) : 0;
}

/* Before the pins of a session are looked at: whether it is live. */
bool fan_session_take_wanted(struct fan_sessions *sessions, uint32_t session);

/* A want for the first pin from `pin` on that is in WANTED and was not seen yet; `pin` is the one
 * behind it then. NULL: there is none. */
struct fan_want *fan_session_next_want(struct fan_sessions *sessions, uint32_t session,
                                       unsigned *pin, uint64_t now_ns);

/* Every pin in WANTED, seen or not, FAILED with EREMOTEIO. */
void fan_sessions_fail_all(struct fan_sessions *sessions);

/* Ends a want, which is in no flight any more: the pin holds the frame, or failed with an errno. */
void fan_want_grant(struct fan_sessions *sessions, struct fan_want *want, uint32_t id,
                    enum fan_stall_source source);
void fan_want_fail(struct fan_sessions *sessions, struct fan_want *want, int error);

#endif
