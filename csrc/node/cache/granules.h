/*
 * Allocates runs of granules, each up to one block long, from the start of the shortest free run
 * that is long enough, so that few gaps remain between runs of different lengths. Only does the
 * accounting: never touches the granules' memory. For one thread.
 */
#pragma once

#include <stdint.h>

enum { FAN_GRANULES_RUN_MAX = 256 };

struct fan_granule_link {
    uint32_t previous;
    uint32_t next;
};

/* heads: lists of the free runs, by length; the last list also has all longer runs. there: one bit
 * for each list that is not empty. lengths: at the first and the last granule of a free run its
 * length; elsewhere 0. */
struct fan_granules {
    uint32_t count;
    uint32_t free_count;
    uint32_t heads[FAN_GRANULES_RUN_MAX + 1];
    uint64_t there[FAN_GRANULES_RUN_MAX / 64 + 1];
    struct fan_granule_link *links;
    uint32_t *lengths;
};

/* Makes `count` granules, all free; `most`: there may be so many later. Returns 0 or -ENOMEM. */
int fan_granules_init(struct fan_granules *granules, uint32_t count, uint32_t most);

/* Adds free granules behind the last one. */
void fan_granules_add(struct fan_granules *granules, uint32_t more);
void fan_granules_fini(struct fan_granules *granules);

/* Takes `count` adjacent granules, 1 to FAN_GRANULES_RUN_MAX. Returns the first; -ENOSPC if no free
 * run is that long. */
int64_t fan_granules_take(struct fan_granules *granules, uint32_t count);

/* Gives back a run that was taken, or any part of one. */
void fan_granules_give(struct fan_granules *granules, uint32_t start, uint32_t count);
