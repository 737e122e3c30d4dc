/*
 * Hands out runs of granules, up to one block long: a buddy allocator that takes the next power of
 * two and gives the rest of it back at once, so that no run wastes a whole granule. Numbers only;
 * it never touches the granules. One thread.
 */
#ifndef FAN_NODE_GRANULES_H
#define FAN_NODE_GRANULES_H

#include <stdint.h>

enum { FAN_GRANULES_ORDER_MAX = 8, FAN_GRANULES_RUN_MAX = 1 << FAN_GRANULES_ORDER_MAX };

struct fan_granule_link {
    uint32_t previous;
    uint32_t next;
};

/* heads: of the free runs of each order. orders: order + 1 where a free run starts, else 0. */
struct fan_granules {
    uint32_t count;
    uint32_t free_count;
    uint32_t heads[FAN_GRANULES_ORDER_MAX + 1];
    struct fan_granule_link *links;
    uint8_t *orders;
};

/* All of `count` granules are free. 0 or -ENOMEM. */
int fan_granules_init(struct fan_granules *granules, uint32_t count);
void fan_granules_fini(struct fan_granules *granules);

/* How many granules are needed side by side, at a multiple of so many, to take `count`. */
static inline uint32_t fan_granules_run(uint32_t count)
{
    uint32_t run = 1;
    while (run < count)
        run *= 2;
    return run;
}

/* The first of `count` adjacent granules, 1 to FAN_GRANULES_RUN_MAX; -ENOSPC when no free run is
 * that long. */
int64_t fan_granules_take(struct fan_granules *granules, uint32_t count);

/* Gives back a run that was taken, or any part of one. */
void fan_granules_give(struct fan_granules *granules, uint32_t start, uint32_t count);

#endif
