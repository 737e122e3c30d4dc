/*
 * Room in the cache: which blocks go, by ../policy/victims.h, and when. Clients say which files
 * they closed in their sessions; that is looked at now and then, and when room is needed.
 */
#ifndef FAN_NODE_EVICTION_H
#define FAN_NODE_EVICTION_H

#include "blockcache.h"

struct fan_eviction {
    struct fan_blockcache *cache;
    const struct fan_live *live;
    uint64_t next_ns; /* when sessions are looked at again */
};

void fan_eviction_init(struct fan_eviction *eviction, struct fan_blockcache *cache,
                       const struct fan_live *live);

/* As fan_blockcache_begin_fill, making room where there is none. For what nobody wants yet no block
 * of an open file goes, where the policy knows which those are. */
uint32_t fan_eviction_begin_fill(struct fan_eviction *eviction, const struct fan_fill *fill);

/* Takes what clients closed, where that is due, and evicts what the policy does not keep. Whether
 * anything was evicted. */
bool fan_eviction_advance(struct fan_eviction *eviction, uint64_t now_ns);

/* A file may have been closed without a client's saying so: a session that had it open ended, or
 * its block came after all who wanted it had gone. */
void fan_eviction_check(struct fan_eviction *eviction, uint64_t file);

#endif
