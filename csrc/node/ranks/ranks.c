#include "ranks.h"

#include <errno.h>
#include <stdlib.h>

#include "../../format/cache_format.h"
#include "../machine/shared.h"

int fan_ranks_init(struct fan_ranks *ranks, uint32_t own_rank, uint32_t world_size,
                   uint64_t deadline_ns)
{
    *ranks = (struct fan_ranks){.own_rank = own_rank,
                                .world_size = world_size,
                                .deadline_ns = deadline_ns,
                                .dropped = true};
    ranks->ranks = calloc(world_size, sizeof(*ranks->ranks));
    return ranks->ranks != NULL ? 0 : -ENOMEM;
}

void fan_ranks_fini(struct fan_ranks *ranks)
{
    free(ranks->ranks);
    *ranks = (struct fan_ranks){0};
}

static bool was_tried(const struct fan_tried *tried, uint32_t rank)
{
    for (uint32_t i = 0; i < tried->count; i++) {
        if (tried->ranks[i] == rank)
            return true;
    }
    return false;
}

static bool can_be_asked(const struct fan_ranks *ranks, const struct fan_tried *tried,
                         uint32_t rank, uint64_t now_ns)
{
    if (rank >= ranks->world_size || rank == ranks->own_rank || was_tried(tried, rank))
        return false;
    const struct fan_rank *at = &ranks->ranks[rank];
    return at->lost == 0 && (!at->suspect || now_ns >= at->probed_ns + ranks->deadline_ns);
}

/* Returns whether `rank` is better to ask than the rank `than`. */
static bool is_better(const struct fan_ranks *ranks, uint32_t rank, uint32_t than, uint64_t hash)
{
    const struct fan_rank *a = &ranks->ranks[rank];
    const struct fan_rank *b = &ranks->ranks[than];
    if (a->suspect != b->suspect)
        return b->suspect;
    if (a->outstanding != b->outstanding)
        return a->outstanding < b->outstanding;
    return fan_cache_hash(hash, rank) < fan_cache_hash(hash, than);
}

uint32_t fan_ranks_choose(const struct fan_ranks *ranks, const struct fan_replicas *replicas,
                          const struct fan_tried *tried, uint64_t hash, uint64_t now_ns)
{
    uint32_t best = FAN_NO_RANK;
    if (tried->count == FAN_TRIED_MOST)
        return FAN_NO_RANK;
    for (uint32_t i = 0; i < replicas->count; i++) {
        uint32_t rank = replicas->ranks[i];
        if (can_be_asked(ranks, tried, rank, now_ns) &&
            (best == FAN_NO_RANK || is_better(ranks, rank, best, hash)))
            best = rank;
    }
    return best;
}

void fan_ranks_ask(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns)
{
    ranks->ranks[rank].outstanding++;
    ranks->ranks[rank].probed_ns = now_ns;
}

void fan_ranks_suspect(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns)
{
    struct fan_rank *at = &ranks->ranks[rank];
    if (at->suspect)
        return;
    at->suspect = true;
    at->probed_ns = now_ns;
}

void fan_ranks_hear(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns)
{
    if (rank >= ranks->world_size)
        return;
    ranks->ranks[rank].suspect = false;
    ranks->ranks[rank].heard_ns = now_ns;
}

void fan_ranks_lose(struct fan_ranks *ranks, uint32_t rank)
{
    if (rank >= ranks->world_size || rank == ranks->own_rank || ranks->ranks[rank].lost != 0)
        return;
    fan_release32(&ranks->ranks[rank].lost, 1);
    ranks->lost_count++;
    ranks->dropped = false;
}

bool fan_ranks_is_lost(const struct fan_ranks *ranks, uint32_t rank)
{
    return rank < ranks->world_size && fan_acquire32(&ranks->ranks[rank].lost) != 0;
}

bool fan_ranks_can_reach(const struct fan_ranks *ranks, uint32_t rank)
{
    return ranks->transport != NULL && !ranks->broken && !fan_ranks_is_lost(ranks, rank);
}

void fan_ranks_lose_all(struct fan_ranks *ranks)
{
    ranks->broken = true;
    for (uint32_t rank = 0; rank < ranks->world_size; rank++)
        fan_ranks_lose(ranks, rank);
}

bool fan_is_momentary(int rc)
{
    return rc == -EAGAIN || rc == -ENOMEM || rc == -ENOBUFS;
}

bool fan_ranks_are_counted(const struct fan_ranks *ranks)
{
    return ranks->own_rank == 0 || ranks->ranks[0].lost == 0;
}

bool fan_ranks_is_waited_for(const struct fan_ranks *ranks, uint32_t rank)
{
    const struct fan_rank *at = &ranks->ranks[rank];
    if (rank == ranks->own_rank || ranks->all_finished || at->lost != 0)
        return false;
    if (ranks->own_rank != 0 && fan_ranks_are_counted(ranks))
        return rank == 0;
    return !at->finished;
}

uint32_t fan_ranks_unfinished(const struct fan_ranks *ranks)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < ranks->world_size; rank++)
        count += fan_ranks_is_waited_for(ranks, rank);
    return count;
}
