/*
 * The sessions of this node's clients, and what their pins want. A want is a pin in WANTED that the
 * daemon has seen; it ends with the pin HELD or FAILED, or with its session.
 */
#ifndef FAN_NODE_SESSIONS_H
#define FAN_NODE_SESSIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "../format/trace_format.h"
#include "cache/blockcache.h"

struct fan_node;
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

/* asked: a bit for each pin of a session that is a want. */
struct fan_sessions {
    struct fan_live live;
    bool *taken;
    uint64_t *asked;
    struct fan_want *wants;
};

/* 0 or -ENOMEM. */
int fan_sessions_init(struct fan_sessions *sessions, uint32_t session_count);
void fan_sessions_fini(struct fan_sessions *sessions);

/* A free session made live: its number, or -EAGAIN. */
int fan_session_open(struct fan_node *node, uint32_t pid);

/* Undoes all that a session has. One that is not live is left alone. */
void fan_session_close(struct fan_node *node, uint32_t session);

/* Looks at the sessions that rang; starts what their pins want. Whether there was any. */
bool fan_sessions_scan(struct fan_node *node, uint64_t now_ns);

/* Every pin in WANTED, seen or not, FAILED with EREMOTEIO. */
void fan_sessions_fail_all(struct fan_node *node);

/* Ends a want, which is in no flight any more: the pin holds the frame, or failed with an errno. */
void fan_want_grant(struct fan_node *node, struct fan_want *want, uint32_t id,
                    enum fan_stall_source source);
void fan_want_fail(struct fan_node *node, struct fan_want *want, int error);

#endif
