/*
 * Decides which blocks leave a cache, and in which order. Pure: a block is the number of its slot,
 * and the caller reports each event; there is no clock, no lock and no content. The node daemon
 * uses it, and simulations do.
 *
 *     close   evicts a block whose file no client has open, even if no room is needed
 *     lru     if room is needed, evicts the block that has been unused for longest
 *     random  if room is needed, evicts any block, each with the same probability
 *     minio   keeps blocks that came while there was room for good; others pass through as in close
 *
 * These policies need an oracle, which knows of each block when it is used next:
 *
 *     reuse   if room is needed, evicts the block whose next use is farthest; does not keep a block
 *             that is never used again, unless no other node has a copy
 *     belady  if room is needed, evicts the block whose next use is farthest; does not keep a block
 *             whose next use is farther than that of all blocks that may be evicted. In the node
 *             daemon only blocks that stay are treated so; others pass through
 *
 * Without an oracle, if room is needed and nothing else is left, evicts blocks of open files too,
 * the least recently used first, so that a file larger than the cache can be read.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "key_heap.h"

/* cffi: begin */
enum fan_policy {
    FAN_POLICY_CLOSE = 0,
    FAN_POLICY_LRU = 1,
    FAN_POLICY_RANDOM = 2,
    FAN_POLICY_MINIO = 3,
    FAN_POLICY_COUNT = 4, /* the number of policies without an oracle */
    FAN_POLICY_REUSE = 4,
    FAN_POLICY_BELADY = 5
};
/* cffi: end */

enum { FAN_NO_SLOT = UINT32_MAX, FAN_NEVER = UINT32_MAX };

/* A slot that may be evicted. Under random `previous` is its place in `drawn`. */
struct fan_victim {
    uint32_t previous;
    uint32_t next;
    bool closed;
};

struct fan_victim_list {
    uint32_t head;
    uint32_t tail;
};

/* open, closed: slots whose file is open, or closed; the least recently used first. drawn: under
 * random, all slots that may go. foreseen: with an oracle, all slots that may go. */
struct fan_victims {
    enum fan_policy policy;
    uint32_t count; /* the number of slots that may be evicted */
    struct fan_victim *slots;
    struct fan_victim_list open;
    struct fan_victim_list closed;
    uint32_t *drawn;
    uint64_t random;
    struct fan_key_heap foreseen;
};

/* Returns whether a policy needs to know which files are open. */
static inline bool fan_policy_follows_opens(enum fan_policy policy)
{
    return policy == FAN_POLICY_CLOSE || policy == FAN_POLICY_MINIO;
}

static inline bool fan_policy_has_oracle(enum fan_policy policy)
{
    return policy >= FAN_POLICY_REUSE;
}

/* Prepares slots 0 to slot_count - 1, none of which may go yet. Returns 0 or -ENOMEM. */
int fan_victims_init(struct fan_victims *victims, enum fan_policy policy, uint32_t slot_count);
void fan_victims_fini(struct fan_victims *victims);

/* Reports that the block in a slot was used just now, and may be evicted from now on. */
void fan_victims_enter(struct fan_victims *victims, uint32_t slot);

/* fan_victims_use reports that a block that may be evicted was used again; fan_victims_close, that
 * no client has its file open any more. */
void fan_victims_use(struct fan_victims *victims, uint32_t slot);
void fan_victims_close(struct fan_victims *victims, uint32_t slot);

/* Reports that the block in a slot was used just now, and may be evicted. With an oracle, call this
 * instead of the three functions above. `foreseen` is the place of its next use, or FAN_NEVER. */
void fan_victims_foresee(struct fan_victims *victims, uint32_t slot, uint32_t foreseen);

/* Returns whether it is better not to cache a block for which there is no free room. */
bool fan_victims_declines(const struct fan_victims *victims, uint32_t foreseen);

/* Returns whether to drop a block after its use although there is room. Other nodes must have a
 * copy. */
bool fan_victims_drops(const struct fan_victims *victims, uint32_t foreseen);

/* Reports that the block in a slot that might be evicted has left the cache. */
void fan_victims_leave(struct fan_victims *victims, uint32_t slot);

/* Returns the slot to evict when room is needed, or FAN_NO_SLOT. Under random each call draws
 * again. */
uint32_t fan_victims_next(struct fan_victims *victims);

/* Returns the slot to evict although there is room, or FAN_NO_SLOT. Only without an oracle. */
uint32_t fan_victims_unneeded(const struct fan_victims *victims);
