/*
 * The other ranks: whether each can be reached, how busy it is, and which of them to ask.
 *
 * A rank that let a deadline pass is suspect until it answers anything: it is asked only where
 * nobody else can be, and then once a deadline. A lost one is never asked again.
 */
#ifndef FAN_NODE_RANKS_H
#define FAN_NODE_RANKS_H

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"
#include "../storage/mounts.h"

/* lost: atomic, read by any thread. outstanding: fetches under way. probed_ns: when it was last
 * asked although suspect. heard_ns, pinged_ns: for the end of the job. */
struct fan_rank {
    uint32_t lost;
    uint32_t outstanding;
    bool suspect;
    bool finished;
    uint64_t probed_ns;
    uint64_t heard_ns;
    uint64_t pinged_ns;
};

enum fan_told { FAN_TOLD_NOBODY = 0, FAN_TOLD_RANK_0 = 1, FAN_TOLD_ALL = 2 };

/* transport: how they are reached; NULL: there is no other rank. broken: it is, for good. dropped:
 * since a rank was lost, what it was asked has been given up. */
struct fan_ranks {
    struct fan_rank *ranks;
    struct fan_transport *transport;
    bool broken;
    uint32_t own_rank;
    uint32_t world_size;
    uint64_t deadline_ns;
    bool dropped;
    bool finishing;
    uint64_t finishing_ns; /* since when */
    uint64_t looked_ns;    /* when it was last looked for ranks that say nothing (deadlines.c) */
    enum fan_told told;    /* who knows that this rank is finished */
    bool all_finished;     /* nobody reads any more, as rank 0 said or this one found */
    uint32_t lost_count;
};

enum { FAN_TRIED_MOST = 16 }; /* so many attempts are enough */

/* Ranks that were asked for a block already. */
struct fan_tried {
    uint32_t ranks[FAN_TRIED_MOST];
    uint32_t count;
};

/* 0 or -ENOMEM. */
int fan_ranks_init(struct fan_ranks *ranks, uint32_t own_rank, uint32_t world_size,
                   uint64_t deadline_ns);
void fan_ranks_fini(struct fan_ranks *ranks);

/* The rank to ask for a block: of those not tried the one with the fewest outstanding requests,
 * ties broken by a hash. FAN_NO_RANK when nobody is left to be asked now. */
uint32_t fan_ranks_choose(const struct fan_ranks *ranks, const struct fan_replicas *replicas,
                          const struct fan_tried *tried, uint64_t hash, uint64_t now_ns);

/* A request goes to a rank; it let a deadline pass; something came from it. */
void fan_ranks_ask(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns);
void fan_ranks_suspect(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns);
void fan_ranks_hear(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns);

/* Counts a rank as lost; what it was asked is given up in the thread's next turn. */
void fan_ranks_lose(struct fan_ranks *ranks, uint32_t rank);
bool fan_ranks_is_lost(const struct fan_ranks *ranks, uint32_t rank);

/* Whether the transport can be used to send something to a rank. */
bool fan_ranks_can_reach(const struct fan_ranks *ranks, uint32_t rank);

/* The transport is broken: all ranks are lost. */
void fan_ranks_lose_all(struct fan_ranks *ranks);

/* Whether an error of the transport says nothing about the rank it was to reach. */
bool fan_is_momentary(int rc);

/* Whether rank 0 counts who is finished; where it is lost, all tell all. */
bool fan_ranks_are_counted(const struct fan_ranks *ranks);

/* Whether this rank waits for `rank` at the end of the job. */
bool fan_ranks_is_waited_for(const struct fan_ranks *ranks, uint32_t rank);

/* How many it waits for. */
uint32_t fan_ranks_unfinished(const struct fan_ranks *ranks);

#endif
