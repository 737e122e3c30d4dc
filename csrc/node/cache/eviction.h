/*
 * Makes room in the cache: decides by ../policy/victims.h which blocks to evict, and when. Clients
 * mark closed files in their sessions; this reads the marks now and then, and when it needs room.
 */
#pragma once

#include "blockcache.h"

struct fan_eviction {
    struct fan_blockcache *cache;
    const struct fan_live *live;
    uint64_t next_ns; /* when to read the sessions' closed files again */
};

void fan_eviction_init(struct fan_eviction *eviction, struct fan_blockcache *cache,
                       const struct fan_live *live);

/* Like fan_blockcache_begin_fill, but makes room if there is none. For a block that no client wants
 * yet, it evicts no block of an open file if the policy follows opens. */
uint32_t fan_eviction_begin_fill(struct fan_eviction *eviction, const struct fan_fill *fill);

/* Reads the closed files from the sessions if it is time to, and evicts blocks that the policy does
 * not keep. Returns whether it evicted any. */
bool fan_eviction_advance(struct fan_eviction *eviction, uint64_t now_ns);

/* Returns whether a client has a file open: always false under a policy for which clients do not
 * report opens, and true for a short time after the file was closed. */
bool fan_eviction_is_open(const struct fan_eviction *eviction, uint64_t file);

/* Checks a file that may be closed although no client reported it: a session that had it open
 * ended, or a block of it arrived after every client that wanted it had ended. */
void fan_eviction_check(struct fan_eviction *eviction, uint64_t file);

/* Under belady, makes room for a block that stays in place of blocks whose next use is later: takes
 * a frame to fill in the first area, in free room or in theirs. The granules of a block are
 * adjacent, so all blocks in a run of that length must go, and each of them must be used later than
 * the new block. Returns FAN_NO_FRAME if the policy is not belady, or the blocks there are worth
 * more than the new one. */
uint32_t fan_replacing_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill,
                                  const struct fan_live *live);
