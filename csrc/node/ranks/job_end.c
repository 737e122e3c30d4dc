#include "job_end.h"

#include "ranks.h"

enum {
    PING_NS = 1000000000,
    PING_EACH_NS = 1000000, /* times the number of ranks that this rank pings */
    ON_THE_WAY_NS = 2000000000 /* how long the end waits for answers to requests ahead */
};

/* Returns the time between two pings, short enough that a rank has several chances to answer before
 * it counts as lost. */
static uint64_t ping_pause_ns(const struct fan_ranks *ranks)
{
    uint64_t deadline_ns = ranks->deadline_ns;
    uint64_t pause_ns = (uint64_t)ranks->world_size * PING_EACH_NS;
    if (pause_ns < PING_NS)
        pause_ns = PING_NS;
    return deadline_ns < pause_ns ? deadline_ns : pause_ns;
}

static void notify(struct fan_ranks *ranks, uint32_t rank, enum fan_notice notice)
{
    struct fan_transport *transport = ranks->transport;
    int rc = transport->notify(transport->context, rank, notice);
    if (rc < 0 && !fan_is_momentary(rc))
        fan_ranks_lose(ranks, rank);
}

/* Tells a rank that no rank reads any more, and which ranks are lost: if there are any, MPI is not
 * finalised. */
static void tell_end(struct fan_ranks *ranks, uint32_t rank)
{
    for (uint32_t lost = 0; ranks->lost_count > 0 && lost < ranks->world_size; lost++) {
        if (ranks->ranks[lost].lost != 0 && lost != rank)
            notify(ranks, rank, FAN_NOTICE_LOST | lost << FAN_NOTICE_BITS);
    }
    notify(ranks, rank, FAN_NOTICE_ALL_FINISHED);
}

/* No rank reads any more: tells that to the ranks that announced their end to this one, as all do
 * to rank 0. */
static void end(struct fan_ranks *ranks)
{
    if (ranks->all_finished)
        return;
    ranks->all_finished = true;
    for (uint32_t rank = 0; rank < ranks->world_size; rank++) {
        if (ranks->ranks[rank].finished && ranks->ranks[rank].lost == 0)
            tell_end(ranks, rank);
    }
}

/* Handles that a rank is finished. The message of a rank that counts as lost here may come late:
 * that rank is answered at once. */
static void hear_finished(struct fan_ranks *ranks, uint32_t rank)
{
    ranks->ranks[rank].finished = true;
    if (ranks->all_finished)
        tell_end(ranks, rank);
}

void fan_job_end_notice(struct fan_ranks *ranks, const struct fan_transport_event *event)
{
    if (event->rank >= ranks->world_size)
        return;
    switch (event->notice & ((1 << FAN_NOTICE_BITS) - 1)) {
    case FAN_NOTICE_FINISHED:
        hear_finished(ranks, event->rank);
        break;
    case FAN_NOTICE_ALL_FINISHED:
        end(ranks);
        break;
    case FAN_NOTICE_LOST:
        fan_ranks_lose(ranks, event->notice >> FAN_NOTICE_BITS);
        break;
    case FAN_NOTICE_PING:
        if (!fan_ranks_is_lost(ranks, event->rank))
            notify(ranks, event->rank, FAN_NOTICE_PONG);
        break;
    }
}

static bool is_finishing(const struct fan_ranks *ranks)
{
    return ranks->finishing && ranks->transport != NULL && !ranks->broken;
}

static uint64_t announces_ns(const struct fan_ranks *ranks)
{
    return ranks->finishing_ns + ON_THE_WAY_NS;
}

/* Returns whether this rank may announce its end. Other ranks end when they are told to, so they
 * must have answered its requests ahead by then. */
static bool may_announce(const struct fan_ranks *ranks, bool asked_ahead, uint64_t now_ns)
{
    return !asked_ahead || now_ns >= announces_ns(ranks);
}

static enum fan_told to_be_told(const struct fan_ranks *ranks)
{
    if (ranks->world_size == 1 || ranks->own_rank == 0)
        return FAN_TOLD_RANK_0;
    return fan_ranks_are_counted(ranks) ? FAN_TOLD_RANK_0 : FAN_TOLD_ALL;
}

/* Announces that this rank is finished, and begins to look for silent ranks. */
static void announce(struct fan_ranks *ranks, uint64_t now_ns)
{
    ranks->told = to_be_told(ranks);
    for (uint32_t rank = 0; rank < ranks->world_size; rank++) {
        if (!fan_ranks_is_waited_for(ranks, rank) && !ranks->ranks[rank].finished)
            continue;
        ranks->ranks[rank].heard_ns = now_ns;
        ranks->ranks[rank].pinged_ns = now_ns;
        if (ranks->own_rank != 0 && ranks->ranks[rank].lost == 0)
            notify(ranks, rank, FAN_NOTICE_FINISHED);
    }
}

/* Pings a silent rank. A rank that missed a deadline before and has sent nothing since gets no
 * additional time. */
static void ask_silent(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns)
{
    struct fan_rank *at = &ranks->ranks[rank];
    uint64_t deadlines = at->suspect ? 1 : FAN_SILENT_DEADLINES;
    if (now_ns - at->heard_ns >= deadlines * ranks->deadline_ns) {
        fan_ranks_lose(ranks, rank);
    } else if (now_ns - at->pinged_ns >= ping_pause_ns(ranks)) {
        at->pinged_ns = now_ns;
        notify(ranks, rank, FAN_NOTICE_PING);
    }
}

void fan_job_end_advance(struct fan_ranks *ranks, bool asked_ahead, uint64_t now_ns)
{
    if (!is_finishing(ranks) || ranks->all_finished)
        return;
    if (ranks->told == FAN_TOLD_NOBODY && !may_announce(ranks, asked_ahead, now_ns))
        return;
    if (ranks->told < to_be_told(ranks))
        announce(ranks, now_ns);
    bool waits = false;
    for (uint32_t rank = 0; rank < ranks->world_size; rank++) {
        if (!fan_ranks_is_waited_for(ranks, rank))
            continue;
        waits = true;
        ask_silent(ranks, rank, now_ns);
        if (ranks->told < to_be_told(ranks))
            return; /* rank 0 is lost: the next turn first tells all other ranks */
    }
    if (!waits && ranks->own_rank == 0)
        end(ranks);
    else if (!waits)
        ranks->all_finished = true;
}

uint64_t fan_job_end_next_ns(const struct fan_ranks *ranks)
{
    uint64_t next_ns = UINT64_MAX;
    if (!is_finishing(ranks) || ranks->all_finished)
        return next_ns;
    if (ranks->told == FAN_TOLD_NOBODY)
        return announces_ns(ranks);
    for (uint32_t rank = 0; rank < ranks->world_size; rank++) {
        uint64_t at_ns = ranks->ranks[rank].pinged_ns + ping_pause_ns(ranks);
        if (fan_ranks_is_waited_for(ranks, rank) && at_ns < next_ns)
            next_ns = at_ns;
    }
    return next_ns;
}
