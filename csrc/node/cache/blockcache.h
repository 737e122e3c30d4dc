/*
 * The blocks of the cache segment. A frame is what the daemon itself knows of an entry; what a
 * client could overwrite is never read back, but for pins and `touched`.
 *
 *     free -> filling -> ready -> doomed -> free
 *                `-----> quarantined -----> free
 *
 * Doomed frames are EVICTING until `reap` has looked at every pin once; those that are pinned, or
 * being sent, are ready again. A quarantined frame may still be written by the transport. Under
 * minio and belady the data is divided into two areas: a block goes to the first with room. From
 * the second, for what passes through, blocks are evicted as under close; from the first under
 * belady alone, in favour of a block that is used again sooner. Called by one thread at a time.
 */
#ifndef FAN_NODE_BLOCKCACHE_H
#define FAN_NODE_BLOCKCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../policy/victims.h"
#include "frames.h"
#include "granules.h"
#include "segment.h"
#include "staying.h"

enum { FAN_CACHE_AREAS = 2 };

/* The block that a frame is to be filled with. urgency: enum fan_urgency. next_use: when it is used
 * next behind the use that it is filled for (staying.h). */
struct fan_fill {
    uint64_t file;
    uint64_t block;
    uint32_t bytes;
    enum fan_source source;
    uint32_t urgency;
    uint32_t next_use;
};

/* The sessions whose pins count. */
struct fan_live {
    uint32_t count;
    uint32_t sessions[FAN_SESSIONS_MAX];
};

/* unread: unread.h. victims: ready frames that may go; staying: under belady, others that may in
 * favour of a better one. files: by a file's hash, the first of the
 * ready and doomed frames of a chain, FAN_NO_FRAME; a chain holds all blocks of a file. */
struct fan_blockcache {
    struct fan_segment *segment;
    struct fan_granules areas[FAN_CACHE_AREAS];
    uint32_t area_start[FAN_CACHE_AREAS];
    struct fan_frame *frames;
    struct fan_frames free;
    struct fan_frames filling[FAN_SOURCES]; /* oldest first */
    struct fan_frames doomed;
    struct fan_frames unread; /* oldest first */
    uint32_t unread_granules;
    struct fan_victims victims;
    struct fan_staying staying;
    uint32_t *files;
    uint32_t file_mask;
    uint32_t quarantined[FAN_SOURCES];
    uint64_t resident_bytes; /* granules that are not free */
    uint64_t peak_resident_bytes;
    uint64_t evicted;
};

/* 0 or -ENOMEM. */
int fan_blockcache_init(struct fan_blockcache *cache, struct fan_segment *segment,
                        enum fan_policy policy);
void fan_blockcache_fini(struct fan_blockcache *cache);

/* The frame of a ready block, or FAN_NO_FRAME. */
uint32_t fan_blockcache_find(const struct fan_blockcache *cache, uint64_t file, uint64_t block);

/* A frame to be filled, in whatever area or in one of them; FAN_NO_FRAME where there is no room. */
uint32_t fan_blockcache_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill);
uint32_t fan_blockcache_begin_fill_in(struct fan_blockcache *cache, const struct fan_fill *fill,
                                      unsigned area);

/* The address of the bytes of a frame. */
void *fan_blockcache_data(const struct fan_blockcache *cache, uint32_t id);

/* A frame is filled: clients may find it. */
void fan_blockcache_fill_done(struct fan_blockcache *cache, uint32_t id);

/* Nothing will be written to a frame that is filling or quarantined: it is free. */
void fan_blockcache_release(struct fan_blockcache *cache, uint32_t id);

/* The fill of a frame was given up, and may be written still. */
void fan_blockcache_quarantine(struct fan_blockcache *cache, uint32_t id);

/* Ready blocks of a file are found no more; those that nobody has pinned are free. */
void fan_blockcache_forget(struct fan_blockcache *cache, uint64_t file,
                           const struct fan_live *live);

/* A ready frame was used now. */
void fan_blockcache_use(struct fan_blockcache *cache, uint32_t id);

/* Whether a frame that is filling or ready stays for good, once it is filled. */
bool fan_blockcache_stays(const struct fan_blockcache *cache, uint32_t id);

/* An order is to come to a ready frame, which is unread again; does not come to it any more. */
void fan_blockcache_await(struct fan_blockcache *cache, uint32_t id);
void fan_blockcache_unawait(struct fan_blockcache *cache, uint32_t id);

/* Whether next uses matter. */
static inline bool fan_blockcache_foresees(const struct fan_blockcache *cache)
{
    return cache->staying.owners != NULL;
}

/* Sets the next use of all blocks of a file. */
void fan_blockcache_foresee(struct fan_blockcache *cache, uint64_t file, uint32_t next_use);

/* Passes over a victim that is unread or awaited. Whether it is. */
bool fan_blockcache_spare(struct fan_blockcache *cache, uint32_t id);

/* Nobody has a file open any more: the policy is told of each of its blocks that is not unread. */
void fan_blockcache_close(struct fan_blockcache *cache, uint64_t file);

/* The granules that are evicted from. */
uint32_t fan_blockcache_passing(const struct fan_blockcache *cache);

/* Marks a ready frame for `reap`, which looks at the pins of all live sessions once, frees what
 * none of them names, and returns how many that were. */
void fan_blockcache_doom(struct fan_blockcache *cache, uint32_t id);
uint32_t fan_blockcache_reap(struct fan_blockcache *cache, const struct fan_live *live);

static inline uint32_t fan_granules_for(uint32_t bytes)
{
    return (bytes + FAN_CACHE_GRANULE_BYTES - 1) / FAN_CACHE_GRANULE_BYTES;
}

#endif
