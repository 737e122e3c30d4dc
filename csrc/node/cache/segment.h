/*
 * The cache segment as a memory file: its size, the places of its parts, its header. Made once; the
 * size is sealed, so that no holder of the descriptor can cut it off under another.
 */
#ifndef FAN_NODE_SEGMENT_H
#define FAN_NODE_SEGMENT_H

#include <stdint.h>

#include "../../format/cache_format.h"

enum {
    FAN_BLOCK_GRANULES = FAN_CACHE_BLOCK_BYTES / FAN_CACHE_GRANULE_BYTES,
    FAN_CACHE_BLOCKS_MIN = 8,
    FAN_SESSIONS_MIN = 64
};

/* The counts are the daemon's own: those in the header can be overwritten by a client. */
struct fan_segment {
    int fd;
    char *base;
    uint64_t bytes;
    uint64_t data_offset;
    struct fan_cache_header *header;
    struct fan_session *sessions;
    struct fan_bucket *buckets;
    struct fan_cache_entry *entries;
    uint32_t session_count;
    uint32_t bucket_count;
    uint32_t entry_count; /* that of the granules too */
    uint8_t *taken;       /* for each block's worth of data, whether there is memory for it */
};

/* Makes a segment of at most `cache_bytes`. 0, -EINVAL when that is not room for
 * FAN_CACHE_BLOCKS_MIN blocks, or -errno: -ENOMEM where there is no memory for so many. */
int fan_segment_init(struct fan_segment *segment, uint64_t cache_bytes, uint32_t policy);

/* Takes memory for granules that are about to be written: where it cannot be had (it is accounted
 * strictly, and used up) the first store would be SIGBUS. One thread. 0 or -ENOMEM. */
int fan_segment_take(struct fan_segment *segment, uint32_t first_granule, uint32_t count);

/* Accepts a zeroed segment. */
void fan_segment_fini(struct fan_segment *segment);

#endif
