/*
 * The blocks that stay, under belady: those of the cache's first area. One of them is evicted for a
 * block that is used again sooner. As room must be adjacent, what is evicted is all that lies in
 * the way of the new block, each of which is used again later than it.
 */
#ifndef FAN_NODE_STAYING_H
#define FAN_NODE_STAYING_H

#include <stdbool.h>
#include <stdint.h>

#include "../../policy/victims.h"

struct fan_blockcache;
struct fan_fill;
struct fan_live;

/* by_next_use: of the first area's ready frames those that no order awaits. owners: of each granule
 * of the first area the frame that has it, or FAN_NO_FRAME; NULL: under other policies. */
struct fan_staying {
    struct fan_victims by_next_use;
    uint32_t *owners;
};

/* For frames, and granules of the first area. 0 or -ENOMEM. */
int fan_staying_init(struct fan_staying *staying, uint32_t frame_count, uint32_t granule_count);
void fan_staying_fini(struct fan_staying *staying);

/* Whether a frame that has taken room in the first area, or gives it, is noted as its owner. */
void fan_staying_own(struct fan_blockcache *cache, uint32_t id, bool owns);

/* Whether the next use of a frame matters now: it is ready, and no order awaits it. */
bool fan_staying_has(const struct fan_blockcache *cache, uint32_t id);

/* To be called when that becomes so, or is about to end. */
void fan_staying_enter(struct fan_blockcache *cache, uint32_t id);
void fan_staying_leave(struct fan_blockcache *cache, uint32_t id);

/* Sets the key of the next use of a frame that is among them. */
void fan_staying_foresee(struct fan_blockcache *cache, uint32_t id, uint32_t next_use);

/* A frame in the first area for a block whose next use is known: in room that is free, or of blocks
 * that are used later. FAN_NO_FRAME: the block is not worth that. */
uint32_t fan_staying_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill,
                                const struct fan_live *live);

#endif
