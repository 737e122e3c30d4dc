/*
 * Under belady, makes room for a block that stays in place of blocks whose next use is later. The
 * granules of a block are adjacent, so all blocks in a run of that length must go, and each of them
 * must be used later than the new block. Uses blockcache.h to evict them.
 */
#ifndef FAN_NODE_REPLACING_H
#define FAN_NODE_REPLACING_H

#include "blockcache.h"

/* Takes a frame to fill in the first area, in free room or in place of blocks whose next use is
 * later than the new block's. Returns FAN_NO_FRAME if the policy is not belady, or the blocks there
 * are worth more than the new one. */
uint32_t fan_replacing_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill,
                                  const struct fan_live *live);

#endif
