/*
 * The other ranks: whether each can be reached, how busy it is, and which of them to ask.
 *
 * A rank that missed a deadline is suspect until anything arrives from it: it is asked only if no
 * other rank can be, and then once in each deadline. A lost rank is never asked again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"
#include "../storage/mounts.h"

/* lost: atomic; any thread may read it. outstanding: fetches in progress. probed_ns: when the rank
 * was last asked while suspect. heard_ns, pinged_ns: for the end of the job. */
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

/* transport: NULL if there is no other rank. broken: the transport never works again. dropped: all
 * requests to lost ranks have been given up. */
struct fan_ranks {
    struct fan_rank *ranks;
    struct fan_transport *transport;
    bool broken;
    uint32_t own_rank;
    uint32_t world_size;
    uint64_t deadline_ns;
    bool dropped;
    bool finishing;
    uint64_t finishing_ns; /* when this rank began to finish */
    uint64_t looked_ns;    /* when deadlines.c last looked for silent ranks */
    enum fan_told told;    /* which ranks were told that this one is finished */
    bool all_finished;     /* no rank reads any more: rank 0 said so, or this rank knows it */
    uint32_t lost_count;
};

enum { FAN_TRIED_MOST = 16 }; /* the most attempts for one block */

/* The ranks that were already asked for a block. */
struct fan_tried {
    uint32_t ranks[FAN_TRIED_MOST];
    uint32_t count;
};

/* Returns 0 or -ENOMEM. */
int fan_ranks_init(struct fan_ranks *ranks, uint32_t own_rank, uint32_t world_size,
                   uint64_t deadline_ns);
void fan_ranks_fini(struct fan_ranks *ranks);

/* Chooses the rank to ask for a block: among those not tried, the one with the fewest outstanding
 * requests; a hash breaks ties. FAN_NO_RANK if there is no rank left to ask now. */
uint32_t fan_ranks_choose(const struct fan_ranks *ranks, const struct fan_replicas *replicas,
                          const struct fan_tried *tried, uint64_t hash, uint64_t now_ns);

/* ask: a request goes to a rank now. suspect: the rank missed a deadline. hear: something arrived
 * from it. */
void fan_ranks_ask(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns);
void fan_ranks_suspect(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns);
void fan_ranks_hear(struct fan_ranks *ranks, uint32_t rank, uint64_t now_ns);

/* Marks a rank as lost. In its next turn the thread gives up all requests to the rank. */
void fan_ranks_lose(struct fan_ranks *ranks, uint32_t rank);
bool fan_ranks_is_lost(const struct fan_ranks *ranks, uint32_t rank);

/* Returns whether the transport can be used to send something to a rank. */
bool fan_ranks_can_reach(const struct fan_ranks *ranks, uint32_t rank);

/* Marks the transport as broken and all ranks as lost. */
void fan_ranks_lose_all(struct fan_ranks *ranks);

/* Returns whether an error of the transport may be gone soon, and tells nothing about the rank. */
bool fan_is_momentary(int rc);

/* Returns whether rank 0 collects the announcements of finished ranks. If it is lost, every rank
 * tells all others. */
bool fan_ranks_are_counted(const struct fan_ranks *ranks);

/* Returns whether this rank waits for `rank` at the end of the job. */
bool fan_ranks_is_waited_for(const struct fan_ranks *ranks, uint32_t rank);

/* Returns the number of ranks for which this one waits. */
uint32_t fan_ranks_unfinished(const struct fan_ranks *ranks);
