/*
 * Makes the cache segment, a memory file: its size, its parts and its header. The size is sealed,
 * so that no process with the descriptor can truncate it while others use it.
 */
#pragma once

#include <stdint.h>

#include "../../format/cache_format.h"

enum { FAN_CACHE_BLOCKS_MIN = 8 };

/* The counts are the daemon's own copies, because a client can overwrite those in the header. */
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
    uint32_t entry_count; /* also the number of granules in use */
    uint32_t most;        /* entry_count at its largest; the file has room for so many */
    uint32_t passing;     /* the last granules, for blocks that pass through where others stay */
    uint8_t *taken;       /* for each block of data, whether its memory is allocated */
};

/* Makes a segment for `content_bytes` of blocks, each of which takes whole granules; later it may
 * grow to `most_bytes`, but at most to four times its size. The room for blocks that pass through
 * and the tables come on top: about a fifth more, with 5 MiB at least. Returns 0, -EINVAL if that
 * is too little for FAN_CACHE_BLOCKS_MIN blocks, or -errno: -ENOMEM if there is no memory for that
 * many. */
int fan_segment_init(struct fan_segment *segment, uint64_t content_bytes, uint64_t most_bytes,
                     uint32_t policy);

/* Adds entries and granules for `content_bytes` more. Returns how many; 0 if there is no room or no
 * memory for their entries. */
uint32_t fan_segment_grow(struct fan_segment *segment, uint64_t content_bytes);

/* Allocates the memory of a session before it begins. It is kept for the next one with its number.
 * Returns 0 or -ENOMEM. */
int fan_segment_take_session(struct fan_segment *segment, uint32_t number);

/* Returns how much memory the segment takes when all its granules are filled, apart from sessions.
 */
uint64_t fan_segment_used(const struct fan_segment *segment);

/* Allocates memory for granules before they are written. Otherwise, if a limit on memory is
 * reached, the first store to them would raise SIGBUS. For one thread. Returns 0 or -ENOMEM. */
int fan_segment_take(struct fan_segment *segment, uint32_t first_granule, uint32_t count);

/* Unmaps and closes the segment. Accepts a zeroed one. */
void fan_segment_fini(struct fan_segment *segment);
