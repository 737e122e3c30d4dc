/*
 * Hands out runs of granules, up to one block long: the shortest free run that is long enough, from
 * its start, so that little is left between runs of different lengths. Numbers only; it never
 * touches the granules. One thread.
 */
#ifndef FAN_NODE_GRANULES_H
#define FAN_NODE_GRANULES_H

#include <stdint.h>

enum { FAN_GRANULES_RUN_MAX = 256 };

struct fan_granule_link {
    uint32_t previous;
    uint32_t next;
};

/* heads: of the free runs of each length, the last of those that are longer, too; there: a bit for
 * each that has any. lengths: of a free run, at its first and its last granule; else 0. */
struct fan_granules {
    uint32_t count;
    uint32_t free_count;
    uint32_t heads[FAN_GRANULES_RUN_MAX + 1];
    uint64_t there[FAN_GRANULES_RUN_MAX / 64 + 1];
    struct fan_granule_link *links;
    uint32_t *lengths;
};

/* All of `count` granules are free. 0 or -ENOMEM. */
int fan_granules_init(struct fan_granules *granules, uint32_t count);
void fan_granules_fini(struct fan_granules *granules);

/* The first of `count` adjacent granules, 1 to FAN_GRANULES_RUN_MAX; -ENOSPC when no free run is
 * that long. */
int64_t fan_granules_take(struct fan_granules *granules, uint32_t count);

/* Gives back a run that was taken, or any part of one. */
void fan_granules_give(struct fan_granules *granules, uint32_t start, uint32_t count);

#endif
