/*
 * The blocks of the cache segment. A frame is the daemon's own record of an entry: the daemon never
 * reads back what a client could overwrite, except pins and `touched`.
 *
 *     free -> filling -> ready -> doomed -> free
 *                `-----> quarantined -----> free
 *
 * Doomed frames are EVICTING until `reap` has looked at every pin once; those that are pinned, or
 * being sent, become ready again. The transport may still write to a quarantined frame. Under minio
 * and belady the data has three areas. In the first, blocks stay: only belady evicts from there, to
 * make room for a block that is used again sooner. Where that has no room, blocks pass through the
 * second: they are evicted as under close. The third is for the blocks that this node keeps for all
 * ranks, and has room for all of them. One thread at a time calls these functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../policy/victims.h"
#include "../machine/piece.h"
#include "frames.h"
#include "granules.h"
#include "segment.h"
#include "staying.h"

enum { FAN_AREA_STAYING, FAN_AREA_PASSING, FAN_AREA_KEPT, FAN_CACHE_AREAS };

/* Describes the block, or the part of one, for which a frame is filled. urgency: enum fan_urgency.
 * next_use: when the block is used next, after the use for which it is fetched (staying.h). kept:
 * this node keeps it for all ranks. replaces: it may only come in place of other blocks. */
struct fan_fill {
    uint64_t file;
    uint64_t block;
    uint32_t bytes;
    enum fan_source source;
    uint32_t urgency;
    uint32_t next_use;
    bool kept;
    struct fan_piece part;
    bool replaces;
};

enum { FAN_PIECE_COUNTS = 4096 };

/* The sessions whose pins are looked at. */
struct fan_live {
    uint32_t count;
    uint32_t sessions[FAN_SESSIONS_MAX];
};

/* unread: unread.h. victims: ready frames that may be evicted; staying: under belady, further
 * frames that may be evicted for a better one. pieces: listing.h. files: a hash table with the
 * first frame of each chain, or FAN_NO_FRAME; a chain has the ready and doomed frames of all blocks
 * of a file. */
struct fan_blockcache {
    struct fan_segment *segment;
    struct fan_granules areas[FAN_CACHE_AREAS];
    uint32_t area_start[FAN_CACHE_AREAS];
    struct fan_frame *frames;
    struct fan_frames free;
    struct fan_frames filling[FAN_SOURCES]; /* lists of filling frames, oldest first */
    struct fan_frames doomed;
    struct fan_frames unread; /* unread frames, oldest first */
    uint32_t unread_granules;
    struct fan_victims victims;
    struct fan_staying staying;
    uint32_t *files;
    uint32_t file_mask;
    uint32_t pieces[FAN_PIECE_COUNTS];
    uint32_t quarantined[FAN_SOURCES];
    uint64_t resident_bytes; /* bytes of the granules that are not free */
    uint64_t peak_resident_bytes;
    uint64_t evicted;
};

/* Makes an empty cache in `segment`. Returns 0 or -ENOMEM. */
int fan_blockcache_init(struct fan_blockcache *cache, struct fan_segment *segment,
                        enum fan_policy policy);
void fan_blockcache_fini(struct fan_blockcache *cache);

/* Adds room for so many more bytes of blocks that stay, as far as the segment has room for them.
 * Does nothing if granules are set apart (fan_blockcache_keep). */
void fan_blockcache_grow(struct fan_blockcache *cache, uint64_t content_bytes);

/* Sets granules of an empty cache apart for the blocks that this node keeps for all ranks, if
 * blocks stay under its policy. Returns 0 or -ENOMEM. */
int fan_blockcache_keep(struct fan_blockcache *cache, uint64_t granules);

/* begin_fill takes a free frame to fill, in any area that the block may use; begin_fill_in takes
 * one in the given area. Return FAN_NO_FRAME if there is no room. */
uint32_t fan_blockcache_begin_fill(struct fan_blockcache *cache, const struct fan_fill *fill);
uint32_t fan_blockcache_begin_fill_in(struct fan_blockcache *cache, const struct fan_fill *fill,
                                      unsigned area);

/* Returns the address of the bytes of a frame. */
void *fan_blockcache_data(const struct fan_blockcache *cache, uint32_t id);

/* Makes a filled frame ready: clients may find it from now on. */
void fan_blockcache_fill_done(struct fan_blockcache *cache, uint32_t id);

/* Frees a frame that is filling or quarantined. Nothing more may be written to it. */
void fan_blockcache_release(struct fan_blockcache *cache, uint32_t id);

/* Puts a frame in quarantine: its fill was given up, but the transport may still write to it. */
void fan_blockcache_quarantine(struct fan_blockcache *cache, uint32_t id);

/* Hides the ready blocks of a file from clients, and frees those that no client has pinned. */
void fan_blockcache_forget(struct fan_blockcache *cache, uint64_t file,
                           const struct fan_live *live);

/* Records that a ready frame was used just now. */
void fan_blockcache_use(struct fan_blockcache *cache, uint32_t id);

/* Returns whether a frame that is filling or ready will stay for good once it is filled. */
bool fan_blockcache_stays(const struct fan_blockcache *cache, uint32_t id);

/* await: an order will read a ready frame, which counts as unread again. unawait: the order will
 * not read it any more. */
void fan_blockcache_await(struct fan_blockcache *cache, uint32_t id);
void fan_blockcache_unawait(struct fan_blockcache *cache, uint32_t id);

/* Returns whether the policy evicts by next use. */
static inline bool fan_blockcache_foresees(const struct fan_blockcache *cache)
{
    return cache->staying.owners != NULL;
}

/* Sets when the whole blocks of a file are used next. */
void fan_blockcache_foresee(struct fan_blockcache *cache, uint64_t file, uint32_t next_use);

/* Spares a victim if it is unread or awaited. Returns whether it did. */
bool fan_blockcache_spare(struct fan_blockcache *cache, uint32_t id);

/* Call it when no client has a file open any more: tells the policy so for each of its blocks,
 * except the unread ones. */
void fan_blockcache_close(struct fan_blockcache *cache, uint64_t file);

/* Does the same for one ready frame, because its reader has passed it. */
void fan_blockcache_close_one(struct fan_blockcache *cache, uint32_t id);

/* Returns the number of granules in the area from which blocks are evicted. */
uint32_t fan_blockcache_passing(const struct fan_blockcache *cache);

/* doom marks a ready frame for reap. reap looks at the pins of all live sessions once, frees the
 * doomed frames that no pin names, and returns how many it freed. */
void fan_blockcache_doom(struct fan_blockcache *cache, uint32_t id);
uint32_t fan_blockcache_reap(struct fan_blockcache *cache, const struct fan_live *live);

static inline uint32_t fan_granules_for(uint32_t bytes)
{
    return (uint32_t)fan_cache_granules(bytes);
}
