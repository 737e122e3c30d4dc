/*
 * The objects that clients are writing, as the names segment has them (struct fan_names_draft), and
 * their numbers, as in fanstore/outputs/model/entries.py: for whoever has the segment to change it.
 */
#ifndef FAN_CHANGES_DRAFT_H
#define FAN_CHANGES_DRAFT_H

#include "change.h"

#define FAN_INODE_BIT (UINT64_C(1) << 62)
#define FAN_OWN_OBJECTS_BIT (UINT64_C(1) << 39) /* the daemon's own objects do not have it */

/* The rank on which an object lies. */
static inline uint32_t fan_draft_rank(uint64_t object)
{
    return (uint32_t)(object >> FAN_OBJECT_RANK_SHIFT);
}

static inline uint64_t fan_draft_new_object(const struct fan_names *names)
{
    struct fan_names_header *header = names->header;
    uint64_t rank = (uint64_t)header->rank << FAN_OBJECT_RANK_SHIFT;
    return rank | FAN_OWN_OBJECTS_BIT | ++header->last_object;
}

static inline struct fan_names_draft *fan_draft_at(const struct fan_names *names, uint64_t object)
{
    return &names->header->drafts[object % FAN_NAMES_DRAFTS];
}

/* Whether an object is being written that no daemon has taken over. */
static inline bool fan_draft_is(const struct fan_names *names, uint64_t object)
{
    return object != 0 &&
           __atomic_load_n(&fan_draft_at(names, object)->object, __ATOMIC_RELAXED) == object;
}

/* Whether another rank keeps its name: a hint only, unless the segment is the caller's. */
static inline bool fan_draft_is_elsewhere(const struct fan_names *names, uint64_t object)
{
    uint64_t unit = __atomic_load_n(&fan_draft_at(names, object)->unit, __ATOMIC_RELAXED);
    return fan_draft_is(names, object) && (unit & FAN_NAMES_DRAFT_ELSEWHERE) != 0;
}

static inline uint64_t fan_draft_writer(const struct fan_changer *changer)
{
    return (uint64_t)changer->rank << 32 | changer->pid;
}

#endif
