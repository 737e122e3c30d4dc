/*
 * The marks of records in the job segment: a record is damaged, or an earlier job left it on the
 * local disk and no one has checked it since. Any thread may call these.
 */
#ifndef FAN_NODE_MARKS_H
#define FAN_NODE_MARKS_H

#include "mounts.h"
#include "../machine/shared.h"

/* Whether the file was found to be damaged. */
bool fan_mounts_is_damaged(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* Has a record count as damaged from now on: clients get EIO for it. */
void fan_mounts_mark_damaged(struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* Whether an earlier job left records in a pack that were not checked yet. */
static inline bool fan_mount_has_unchecked(const struct fan_node_mount *mount, uint32_t pack)
{
    return (fan_acquire32(&mount->places[pack].flags) & FAN_PLACE_HAS_UNCHECKED) != 0;
}

/* Whether an earlier job left a record on the local disk, and nobody has checked it since. */
bool fan_mount_is_unchecked(const struct fan_node_mount *mount, uint64_t id);

/* Notes that a record of a whole pack was checked. */
void fan_mount_note_checked(struct fan_node_mount *mount, uint64_t id);

#endif
