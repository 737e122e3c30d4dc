#include "peers.h"

#include "inner.h"
#include "machine/shared.h"

enum {
    PING_NS = 1000000000,
    SILENT_DEADLINES = 3,
    ON_THE_WAY_NS = 2000000000 /* waited for what was asked ahead */
};

/* Often enough that a rank has several chances to answer before it counts as lost. */
static uint64_t ping_pause_ns(const struct fan_node *node)
{
    uint64_t deadline_ns = node->options.deadline_ns;
    return deadline_ns < PING_NS ? deadline_ns : PING_NS;
}

static void notify(struct fan_node *node, uint32_t rank, enum fan_notice notice)
{
    struct fan_transport *transport = node->transport;
    int rc = transport->notify(transport->context, rank, notice);
    if (rc < 0 && !fan_is_momentary(rc))
        fan_ranks_lose(&node->ranks, rank);
}

void fan_peers_notice(struct fan_node *node, const struct fan_transport_event *event)
{
    if (event->rank >= node->ranks.world_size)
        return;
    if (event->notice == FAN_NOTICE_FINISHED)
        node->ranks.ranks[event->rank].finished = true;
    else if (event->notice == FAN_NOTICE_PING && !fan_ranks_is_lost(&node->ranks, event->rank))
        notify(node, event->rank, FAN_NOTICE_PONG);
}

static bool is_waited_for(const struct fan_node *node, uint32_t rank)
{
    const struct fan_rank *at = &node->ranks.ranks[rank];
    return rank != node->ranks.own_rank && at->lost == 0 && !at->finished;
}

static bool is_finishing(const struct fan_node *node)
{
    return node->ranks.finishing && node->transport != NULL && !node->broken;
}

static uint64_t announces_ns(const struct fan_node *node)
{
    return node->ranks.finishing_ns + ON_THE_WAY_NS;
}

/* Others end when they are told: by then they are to have answered what they were asked ahead. */
static bool may_announce(const struct fan_node *node, uint64_t now_ns)
{
    return node->flights.counts[FAN_AHEAD] == 0 || now_ns >= announces_ns(node);
}

static void announce(struct fan_node *node, uint64_t now_ns)
{
    struct fan_ranks *ranks = &node->ranks;
    ranks->announced = true;
    for (uint32_t rank = 0; rank < ranks->world_size; rank++) {
        if (rank == ranks->own_rank || ranks->ranks[rank].lost != 0)
            continue;
        ranks->ranks[rank].heard_ns = now_ns;
        ranks->ranks[rank].pinged_ns = now_ns;
        notify(node, rank, FAN_NOTICE_FINISHED);
    }
}

static void ask_silent(struct fan_node *node, uint32_t rank, uint64_t now_ns)
{
    struct fan_rank *at = &node->ranks.ranks[rank];
    if (now_ns - at->heard_ns >= SILENT_DEADLINES * node->options.deadline_ns) {
        fan_ranks_lose(&node->ranks, rank);
    } else if (now_ns - at->pinged_ns >= ping_pause_ns(node)) {
        at->pinged_ns = now_ns;
        notify(node, rank, FAN_NOTICE_PING);
    }
}

void fan_peers_advance(struct fan_node *node, uint64_t now_ns)
{
    if (!is_finishing(node))
        return;
    if (!node->ranks.announced && !may_announce(node, now_ns))
        return;
    if (!node->ranks.announced)
        announce(node, now_ns);
    for (uint32_t rank = 0; rank < node->ranks.world_size; rank++) {
        if (is_waited_for(node, rank))
            ask_silent(node, rank, now_ns);
    }
}

uint64_t fan_peers_next_ns(const struct fan_node *node)
{
    uint64_t next_ns = UINT64_MAX;
    if (!node->ranks.announced)
        return is_finishing(node) ? announces_ns(node) : next_ns;
    for (uint32_t rank = 0; rank < node->ranks.world_size; rank++) {
        uint64_t at_ns = node->ranks.ranks[rank].pinged_ns + ping_pause_ns(node);
        if (is_waited_for(node, rank) && at_ns < next_ns)
            next_ns = at_ns;
    }
    return next_ns;
}
