#include "deadlines.h"

#include "attempts.h"
#include "../state/state.h"
#include "../machine/shared.h"

enum {
    RETRY_NS = 200000,
    SILENCE_SHARE = 5, /* the longest silence of a rank: the deadline divided by this */
    SILENCE_LOOK_NS = 10000000
};

/* Starts grounded flights in order until there is no room. Fails those that have waited for too
 * long. */
static void retry_grounded(struct fan_node *node, uint64_t now_ns)
{
    struct fan_flights *flights = &node->flights;
    if (flights->grounded.count == 0 || now_ns < flights->retry_ns)
        return;
    flights->retry_ns = now_ns + RETRY_NS;
    uint64_t patience_ns = node->cache.filling[FAN_FROM_SHARED].count > 0
                               ? node->options.shared_deadline_ns
                               : node->options.deadline_ns;
    for (struct fan_flight *flight; (flight = fan_flight_unground(flights)) != NULL;) {
        if (now_ns >= flight->grounded_ns + patience_ns) {
            fan_attempt_fail(node, flight);
        } else if (!fan_attempt_next(node, flight, now_ns)) {
            fan_flight_ground_first(flights, flight);
            return;
        }
    }
}

static void drop_lost(struct fan_node *node, uint64_t now_ns)
{
    node->ranks.dropped = true;
    uint32_t id = node->cache.filling[FAN_FROM_RANK].head;
    while (id != FAN_NO_FRAME) {
        uint32_t next = node->cache.frames[id].next;
        if (fan_ranks_is_lost(&node->ranks, node->cache.frames[id].rank))
            fan_attempt_go_on(node, fan_attempt_give_up(node, id), now_ns);
        id = next;
    }
}

/* Returns whether a late frame means that its rank is late. A block that was asked for ahead may be
 * late because the rank answers other requests first, but not if the rank has sent nothing at all
 * since. */
static bool is_rank_late(const struct fan_node *node, const struct fan_frame *frame)
{
    uint64_t asked_ns = frame->deadline_ns - node->options.deadline_ns;
    bool silent = node->ranks.ranks[frame->rank].heard_ns < asked_ns;
    return frame->flight->wants != NULL && (silent || !frame->flight->asked_ahead);
}

static void drop_late(struct fan_node *node, enum fan_source source, uint64_t now_ns)
{
    for (;;) {
        uint32_t id = node->cache.filling[source].head;
        if (id == FAN_NO_FRAME || now_ns < node->cache.frames[id].deadline_ns)
            return;
        fan_add64(&node->stats.timeouts, 1);
        if (source == FAN_FROM_RANK && is_rank_late(node, &node->cache.frames[id]))
            fan_ranks_suspect(&node->ranks, node->cache.frames[id].rank, now_ns);
        struct fan_flight *flight = fan_attempt_give_up(node, id);
        if (source == FAN_FROM_SHARED) /* a read that had not begun tells nothing about the file */
            flight->unreadable |= node->cache.frames[id].state == FAN_ENTRY_QUARANTINED;
        fan_attempt_go_on(node, flight, now_ns);
    }
}

/* Asks another source for a wanted block if the rank has sent nothing at all since it was asked,
 * long before the deadline, so that a dead rank costs little time. */
static void leave_silent(struct fan_node *node, uint64_t now_ns)
{
    uint64_t most_ns = node->options.deadline_ns, silence_ns = most_ns / SILENCE_SHARE;
    uint32_t id = node->cache.filling[FAN_FROM_RANK].head;
    if (now_ns < node->ranks.looked_ns + SILENCE_LOOK_NS)
        return;
    node->ranks.looked_ns = now_ns;
    while (id != FAN_NO_FRAME &&
           now_ns >= node->cache.frames[id].deadline_ns - most_ns + silence_ns) {
        const struct fan_frame *frame = &node->cache.frames[id];
        uint32_t next = frame->next;
        struct fan_rank *rank = &node->ranks.ranks[frame->rank];
        if (frame->flight->wants != NULL && rank->heard_ns < frame->deadline_ns - most_ns) {
            fan_ranks_suspect(&node->ranks, frame->rank, now_ns);
            fan_add64(&node->stats.timeouts, 1);
            fan_attempt_go_on(node, fan_attempt_give_up(node, id), now_ns);
        }
        id = next;
    }
}

void fan_deadlines_advance(struct fan_node *node, uint64_t now_ns)
{
    leave_silent(node, now_ns);
    drop_late(node, FAN_FROM_RANK, now_ns);
    drop_late(node, FAN_FROM_SHARED, now_ns);
    if (!node->ranks.dropped)
        drop_lost(node, now_ns);
    retry_grounded(node, now_ns);
}

uint64_t fan_deadlines_waited_ns(const struct fan_node *node, enum fan_source source,
                                 uint32_t *rank)
{
    uint32_t id = node->cache.filling[source].head;
    if (id == FAN_NO_FRAME)
        return 0;
    const struct fan_frame *frame = &node->cache.frames[id];
    uint64_t limit_ns =
        source == FAN_FROM_RANK ? node->options.deadline_ns : node->options.shared_deadline_ns;
    uint64_t asked_ns = frame->deadline_ns - limit_ns;
    uint64_t now_ns = fan_now_ns();
    *rank = frame->rank;
    return now_ns > asked_ns ? now_ns - asked_ns : 0;
}

uint64_t fan_deadlines_next_ns(const struct fan_node *node)
{
    uint64_t next_ns = UINT64_MAX;
    for (unsigned source = 0; source < FAN_SOURCES; source++) {
        uint32_t id = node->cache.filling[source].head;
        if (id != FAN_NO_FRAME && node->cache.frames[id].deadline_ns < next_ns)
            next_ns = node->cache.frames[id].deadline_ns;
    }
    if (node->flights.grounded.count > 0 && node->flights.retry_ns < next_ns)
        next_ns = node->flights.retry_ns;
    return next_ns;
}
