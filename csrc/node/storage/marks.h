/*
 * Marks of records in the job segment: a record is damaged, or an earlier job left it on the local
 * disk and it was not checked since. Any thread may call these functions.
 */
#pragma once

#include "mounts.h"
#include "../machine/shared.h"

/* Returns whether the file was found to be damaged. */
bool fan_mounts_is_damaged(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* Marks a record as damaged: clients get EIO for it from now on. */
void fan_mounts_mark_damaged(struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* Returns whether a pack has records that an earlier job left and that were not checked yet. */
static inline bool fan_mount_has_unchecked(const struct fan_node_mount *mount, uint32_t pack)
{
    return (fan_acquire32(&mount->places[pack].flags) & FAN_PLACE_HAS_UNCHECKED) != 0;
}

/* Returns whether an earlier job left a record on the local disk, and it was not checked since. */
bool fan_mount_is_unchecked(const struct fan_node_mount *mount, uint64_t id);

/* Returns whether clients read a record's pack from another rank of this node. */
bool fan_mount_is_at_neighbour(const struct fan_node_mount *mount, uint64_t id);

/* Marks a record of a whole pack as checked. */
void fan_mount_note_checked(struct fan_node_mount *mount, uint64_t id);
