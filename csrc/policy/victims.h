/*
 * The blocks that leave a cache, in order. Pure: blocks are known by the number of the slot that
 * holds them, and all that happens to them is told here, event by event; there is no clock, no lock
 * and no content. The node daemon decides by it, and so does whoever replays what it did.
 *
 *     close   a block of a file that nobody has open goes, whether or not room is needed
 *     lru     the block that was not used for the longest goes when room is needed
 *     random  any block goes when room is needed, each as likely as every other
 *     minio   what came while there was room stays for good; the rest passes through as under close
 *     none    as close, in a cache of a few blocks
 *
 * These ask an oracle, which says of each block when it is used next, or how often:
 *
 *     frequency   the block with the fewest reads goes when room is needed
 *     reuse       the block whose next use is farthest goes when room is needed; one whose next use
 *                 is beyond the next epoch is not kept, unless nobody else has a copy
 *     belady      the block whose next use is farthest goes when room is needed; one whose next use
 *                 is farther than that of all that may go is not kept. In the node daemon that is
 *                 so of what stays, as under minio, and what is not kept passes through
 *
 * Without an oracle, when room is needed and nothing else is left, blocks of open files go too,
 * the least recently used first: a file larger than the cache is readable.
 */
#ifndef FAN_POLICY_VICTIMS_H
#define FAN_POLICY_VICTIMS_H

#include <stdbool.h>
#include <stdint.h>

#include "key_heap.h"

/* cffi: begin */
enum fan_policy {
    FAN_POLICY_CLOSE = 0,
    FAN_POLICY_LRU = 1,
    FAN_POLICY_RANDOM = 2,
    FAN_POLICY_MINIO = 3,
    FAN_POLICY_NONE = 4,
    FAN_POLICY_COUNT = 5, /* of those without an oracle, which are the node daemon's */
    FAN_POLICY_FREQUENCY = 5,
    FAN_POLICY_REUSE = 6,
    FAN_POLICY_BELADY = 7
};
/* cffi: end */

enum { FAN_NO_SLOT = UINT32_MAX, FAN_NEVER = UINT32_MAX };

/* Of a slot that may go. Under random `previous` is its place among those to draw from. */
struct fan_victim {
    uint32_t previous;
    uint32_t next;
    bool closed;
};

struct fan_victim_list {
    uint32_t head;
    uint32_t tail;
};

/* open, closed: slots whose file somebody has open, or nobody; the least recently used first.
 * drawn: under random, all slots that may go. foreseen: with an oracle, all of them. horizon: under
 * reuse, the place of the end of the next epoch, set by whoever tells of uses; FAN_NEVER at first,
 * which serves with an oracle that sees no further. */
struct fan_victims {
    enum fan_policy policy;
    uint32_t count; /* of slots that may go */
    struct fan_victim *slots;
    struct fan_victim_list open;
    struct fan_victim_list closed;
    uint32_t *drawn;
    uint64_t random;
    struct fan_key_heap foreseen;
    uint32_t horizon;
};

/* Whether it matters to a policy who has which file open. */
static inline bool fan_policy_follows_opens(enum fan_policy policy)
{
    return policy == FAN_POLICY_CLOSE || policy == FAN_POLICY_MINIO || policy == FAN_POLICY_NONE;
}

static inline bool fan_policy_has_oracle(enum fan_policy policy)
{
    return policy >= FAN_POLICY_FREQUENCY;
}

/* For slots 0 to slot_count - 1, none of which may go yet. 0 or -ENOMEM. */
int fan_victims_init(struct fan_victims *victims, enum fan_policy policy, uint32_t slot_count);
void fan_victims_fini(struct fan_victims *victims);

/* The block in a slot was used just now, and may go from now on. */
void fan_victims_enter(struct fan_victims *victims, uint32_t slot);

/* A block that may go was used again, or nobody has its file open any more. */
void fan_victims_use(struct fan_victims *victims, uint32_t slot);
void fan_victims_close(struct fan_victims *victims, uint32_t slot);

/* With an oracle, instead of these: the block in a slot was used just now, and may go. `foreseen`
 * is the place of its next use, or FAN_NEVER; under frequency, how often it is read. */
void fan_victims_foresee(struct fan_victims *victims, uint32_t slot, uint32_t foreseen);

/* Whether a block that needs room is better not kept. */
bool fan_victims_declines(const struct fan_victims *victims, uint32_t foreseen);

/* Whether a block that others have a copy of is dropped after its use although there is room. */
bool fan_victims_drops(const struct fan_victims *victims, uint32_t foreseen);

/* The block in a slot that might go is gone. */
void fan_victims_leave(struct fan_victims *victims, uint32_t slot);

/* The slot to go next when room is needed; FAN_NO_SLOT. Under random each call draws another. */
uint32_t fan_victims_next(struct fan_victims *victims);

/* Without an oracle: the slot to go next although there is room; FAN_NO_SLOT. */
uint32_t fan_victims_unneeded(const struct fan_victims *victims);

#endif
