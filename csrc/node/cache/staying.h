/*
 * The blocks that stay, under belady: those of the cache's first area, ordered by when each is used
 * next, and which of its granules each has. A block that another rank could send again comes before
 * all that would have to be read from the shared file system. Below blockcache.h, which says what
 * happens to each frame; replacing.h decides by it.
 */
#ifndef FAN_NODE_STAYING_H
#define FAN_NODE_STAYING_H

#include <stdbool.h>
#include <stdint.h>

#include "../../policy/victims.h"
#include "frames.h"

struct fan_blockcache;

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

/* By which a block is evicted, the highest key first. next_use: when it is used next, less than
 * FAN_NEVER / 2; FAN_NEVER. */
uint32_t fan_staying_key(enum fan_source source, uint32_t next_use);

/* Whether no order that is known reads a frame's block again. */
bool fan_staying_is_unforeseen(const struct fan_blockcache *cache, uint32_t id);

/* Sets the next use, or the key, of a frame that is among them. */
void fan_staying_foresee(struct fan_blockcache *cache, uint32_t id, uint32_t next_use);
void fan_staying_set_key(struct fan_blockcache *cache, uint32_t id, uint32_t key);

#endif
