/*
 * Room for a block that stays, under belady: it takes the place of blocks that are used again later
 * than it. The granules of a block are adjacent, so all blocks that lie in a run of that length
 * have to go, and each of them must be used later. Above blockcache.h, which evicts them.
 */
#ifndef FAN_NODE_REPLACING_H
#define FAN_NODE_REPLACING_H

#include "blockcache.h"

/* Begins to fill a frame in the first area, in free room or in place of blocks that are used later
 * than the new one. FAN_NO_FRAME: the policy is another, or the new block is worth less than all
 * that is there. */
uint32_t fan_replacing_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill,
                                  const struct fan_live *live);

#endif
