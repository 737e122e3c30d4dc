/*
 * Finds ready frames by the bytes that they have. A whole block is listed in one bucket of the
 * segment, a piece in a bucket for each of its granules; clients look there, too. The granules of a
 * block are in at most one frame each, unless another rank or a hint asked for the whole block
 * while pieces of it were here: then whoever looks finds the whole block.
 */
#pragma once

#include "blockcache.h"

/* Returns the frame of a ready whole block, or FAN_NO_FRAME. */
uint32_t fan_blockcache_find(const struct fan_blockcache *cache, uint64_t file, uint64_t block);

/* Returns the frame of a ready block, or piece of it, that has this granule, or FAN_NO_FRAME. */
uint32_t fan_blockcache_find_granule(const struct fan_blockcache *cache, uint64_t file,
                                     uint64_t block, uint32_t granule);

/* Returns whether there may be ready pieces of a block; false is certain. */
bool fan_blockcache_may_have_pieces(const struct fan_blockcache *cache, uint64_t file,
                                    uint64_t block);

/* Enters a frame in all its buckets, or removes it from them. enter returns false if one of them is
 * full: clients then use the frame only through pins that the daemon grants. */
bool fan_listing_enter(struct fan_blockcache *cache, uint32_t id);
void fan_listing_remove(struct fan_blockcache *cache, uint32_t id);

/* Counts a frame that becomes ready (1), or that is freed (-1), if it is a piece. */
void fan_listing_count(struct fan_blockcache *cache, const struct fan_frame *frame, int by);
