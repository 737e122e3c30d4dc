/*
 * Under belady, the blocks that stay: those of the cache's first area in the order of their next
 * use, and which granules each has. Blocks that another rank could send again are evicted before
 * those that must be read from the shared file system again. blockcache.h calls this for each
 * change of a frame; replacing.c chooses victims by it.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../../policy/victims.h"
#include "frames.h"

struct fan_blockcache;

/* by_next_use: the first area's ready frames that no order awaits. owners: the frame that has each
 * granule of the first area, or FAN_NO_FRAME; NULL under other policies. */
struct fan_staying {
    struct fan_victims by_next_use;
    uint32_t *owners;
};

/* Makes the lists for at most this many frames and granules. Returns 0 or -ENOMEM. */
int fan_staying_init(struct fan_staying *staying, uint32_t frame_count, uint32_t granule_count);

/* Adds granules of the first area, from number `first` on, which no frame has. */
void fan_staying_add(struct fan_staying *staying, uint32_t first, uint32_t count);
void fan_staying_fini(struct fan_staying *staying);

/* Enters a frame as the owner of its granules in the first area, or removes it. */
void fan_staying_own(struct fan_blockcache *cache, uint32_t id, bool owns);

/* Returns whether a frame may be evicted from the first area now: it is ready and no order awaits
 * it. */
bool fan_staying_has(const struct fan_blockcache *cache, uint32_t id);

/* Call enter when fan_staying_has becomes true for a frame, and leave before it becomes false. */
void fan_staying_enter(struct fan_blockcache *cache, uint32_t id);
void fan_staying_leave(struct fan_blockcache *cache, uint32_t id);

/* Returns the key that orders blocks for eviction, the highest first. next_use: the time of the
 * next use, less than FAN_NEVER / 2, or FAN_NEVER. */
uint32_t fan_staying_key(enum fan_source source, uint32_t next_use);

/* Returns whether none of the known orders reads a frame's block again. */
bool fan_staying_is_unforeseen(const struct fan_blockcache *cache, uint32_t id);

/* Sets the next use, or the key, of a frame for which fan_staying_has is true. */
void fan_staying_foresee(struct fan_blockcache *cache, uint32_t id, uint32_t next_use);
void fan_staying_set_key(struct fan_blockcache *cache, uint32_t id, uint32_t key);
