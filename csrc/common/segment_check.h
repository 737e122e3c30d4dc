/*
 * Checks a mapped segment before its first offset is used.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../format/shm_format.h"

/* Returns whether `count` entries at `offset` lie in a segment and are aligned to 8 bytes. */
static inline bool fan_segment_has(uint64_t segment_bytes, uint64_t offset, uint64_t count,
                                   uint64_t entry_bytes)
{
    return offset % 8 == 0 && offset <= segment_bytes &&
           count <= (segment_bytes - offset) / entry_bytes;
}

/* Returns whether a mapping of `bytes` bytes is a job segment of this version that contains all its
 * mounts. */
static inline bool fan_is_job_segment(const struct fan_job_header *header, uint64_t bytes)
{
    return bytes >= sizeof(*header) &&
           memcmp(header->magic, FAN_JOB_MAGIC, sizeof(header->magic)) == 0 &&
           header->version == FAN_JOB_VERSION && header->layout_id == FAN_JOB_LAYOUT_ID &&
           header->segment_bytes == bytes && header->mount_count > 0 &&
           header->mount_count <= FAN_JOB_MOUNTS_MAX &&
           fan_segment_has(bytes, header->mounts_offset, header->mount_count,
                           sizeof(struct fan_mount));
}
