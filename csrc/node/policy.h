/*
 * What is evicted, and when.
 *
 *     close   a block of a file that nobody has open goes soon after the last close
 *     lru     blocks go when room is needed, least recently used first
 *     minio   what was cached first stays for good; what finds no room any more goes through a
 *             small part of the data, kept apart, as under close
 *
 * Under each of them, when room is needed and nothing else is left, unpinned blocks of open files
 * go too, least recently used first: a file larger than the cache is readable.
 */
#ifndef FAN_NODE_POLICY_H
#define FAN_NODE_POLICY_H

#include "blockcache.h"
#include "node.h"
#include "openset.h"

struct fan_eviction {
    enum fan_policy policy;
    struct fan_blockcache *cache;
    const struct fan_live *live;
    struct fan_openset open;
    uint32_t released_seen;
    uint64_t next_sweep_ns;
};

/* The granules that this policy keeps apart for blocks in transit. */
uint32_t fan_policy_transit(enum fan_policy policy, uint32_t granule_count);

void fan_eviction_init(struct fan_eviction *eviction, enum fan_policy policy,
                       struct fan_blockcache *cache, const struct fan_live *live);
void fan_eviction_fini(struct fan_eviction *eviction);

/* As fan_blockcache_begin_fill, making room where there is none. */
uint32_t fan_eviction_begin_fill(struct fan_eviction *eviction, const struct fan_fill *fill);

/* Evicts what was closed since the last time, if that is due. Whether it was. */
bool fan_eviction_sweep(struct fan_eviction *eviction, uint64_t now_ns);

/* When that is to be called again at the latest. */
uint64_t fan_eviction_next_ns(const struct fan_eviction *eviction);

/* There may be blocks of closed files although no client said so: a session ended, or a block came
 * after all who wanted it had gone. */
void fan_eviction_expect(struct fan_eviction *eviction);

#endif
