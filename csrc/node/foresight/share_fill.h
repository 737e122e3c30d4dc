/*
 * Bringing this rank's share to the local disk ahead of its reading: records in the order that the
 * caller of node.h gave, run by run, a few at a time, so that reader threads are left for what
 * programs wait for.
 */
#ifndef FAN_NODE_SHARE_FILL_H
#define FAN_NODE_SHARE_FILL_H

#include <stdbool.h>
#include <stdint.h>

#include "../cache/blockcache.h"
#include "../storage/mounts.h"
#include "../storage/readers.h"

/* lists: what is left of each list of records, by its urgency: those that somebody waits for are
 * brought first. running: runs of all lists that reader threads are at, at most `most`. made: how
 * many lists there have been. mounts, shared, cache, live: of the node. */
struct fan_share_fill {
    struct fan_queue lists[FAN_URGENCIES];
    uint32_t running;
    uint32_t most;
    uint32_t made;
    struct fan_mounts *mounts;
    struct fan_readers *shared;
    struct fan_blockcache *cache;
    const struct fan_live *live;
};

void fan_share_fill_init(struct fan_share_fill *fill, struct fan_mounts *mounts,
                         struct fan_readers *shared, struct fan_blockcache *cache,
                         const struct fan_live *live);

/* Frees all lists. Accepts a zeroed one. */
void fan_share_fill_fini(struct fan_share_fill *fill);

/* Adds a list behind all of its urgency; what is no record of a file with content is left out. The
 * number of the list, above 0, or -ENOMEM. */
int fan_share_fill_add(struct fan_share_fill *fill, uint32_t mount, const uint64_t *records,
                       uint64_t count, enum fan_urgency urgency);

/* Adds all records of whole packs that an earlier job left: they are checked. 0 or -ENOMEM. */
int fan_share_fill_check_kept(struct fan_share_fill *fill);

/* Whether reader threads are at as many runs as may be. */
static inline bool fan_share_fill_is_busy(const struct fan_share_fill *fill)
{
    return fill->running >= fill->most;
}

/* Begins what may be begun. Whether there is more to be looked at. */
bool fan_share_fill_advance(struct fan_share_fill *fill);

/* Whether something of a list is still to be brought. */
bool fan_share_fill_goes_on(const struct fan_share_fill *fill, uint32_t number);

/* Whether all was brought that could be. */
static inline bool fan_share_fill_is_done(const struct fan_share_fill *fill)
{
    return fill->lists[FAN_DEMAND].count == 0 && fill->lists[FAN_AHEAD].count == 0;
}

#endif
