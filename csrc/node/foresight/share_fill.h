/*
 * Fetches this rank's share to the local disk before it is read, in runs of neighbours, a few at a
 * time. Records that somebody waits for, or that an order names, come first: the others, in the
 * order that the caller of node.h gave, are fetched while the shared file system has nothing else
 * to do for this node, in runs so short that a program which comes meanwhile hardly waits. From
 * a bucket come many runs at a time, also while programs wait for others; each object alone.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../cache/blockcache.h"
#include "../storage/mounts.h"
#include "../storage/readers.h"

/* lists: the remaining lists of records, by urgency: lists that a caller waits for come first.
 * running: how many runs of each urgency the reader threads work on. run_bytes: how long the next
 * run may be. far_bytes: the memory of what is under way from buckets. wanted_ns: when somebody
 * last read the shared file system. made: how many lists were ever added. mounts, shared, cache,
 * live: the node's. */
struct fan_share_fill {
    struct fan_queue lists[FAN_URGENCIES];
    uint32_t running[FAN_URGENCIES];
    uint64_t run_bytes;
    uint64_t far_bytes;
    uint64_t wanted_ns;
    uint32_t made;
    struct fan_mounts *mounts;
    struct fan_readers *shared;
    struct fan_blockcache *cache;
    const struct fan_live *live;
};

void fan_share_fill_init(struct fan_share_fill *fill, struct fan_mounts *mounts,
                         struct fan_readers *shared, struct fan_blockcache *cache,
                         const struct fan_live *live);

/* Frees all lists. Accepts a zeroed struct. */
void fan_share_fill_fini(struct fan_share_fill *fill);

/* Adds a list behind all others of its urgency; leaves out ids that are no record of a file with
 * content. Returns the number of the list, above 0, or -ENOMEM. */
int fan_share_fill_add(struct fan_share_fill *fill, uint32_t mount, const uint64_t *records,
                       uint64_t count, enum fan_urgency urgency);

/* Adds all records of whole packs that an earlier job left, so that they are checked. Returns 0 or
 * -ENOMEM. */
int fan_share_fill_check_kept(struct fan_share_fill *fill);

/* Returns whether no more records that somebody waits for can be begun now. */
static inline bool fan_share_fill_is_busy(const struct fan_share_fill *fill)
{
    return fill->running[FAN_DEMAND] >= fill->shared->ahead_most;
}

/* Begins as many runs as allowed. Returns whether more records are left to look at. */
bool fan_share_fill_advance(struct fan_share_fill *fill, uint64_t now_ns);

/* Returns whether records of list `number` are still to be fetched. */
bool fan_share_fill_goes_on(const struct fan_share_fill *fill, uint32_t number);

/* Returns whether all lists are done. */
static inline bool fan_share_fill_is_done(const struct fan_share_fill *fill)
{
    return fill->lists[FAN_DEMAND].count == 0 && fill->lists[FAN_AHEAD].count == 0;
}
