/*
 * Tells which share each rank keeps of a dataset of which the local disks hold only parts; every
 * rank knows all shares. `bounds` divide the records, in the order of packs and offsets, among the
 * ranks: records behind the last bound, and those too large for any disk, are on no disk. A record
 * is fetched when it is first read (keep.h), or ahead (keep_run.h). Records on no disk are divided
 * among the ranks' memories, as far as these suffice, by memory_bounds; each rank keeps its part in
 * the block cache (../serve/from_cache.c).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../../local/partial.h"
#include "../machine/transport.h"

struct fan_mounts;
struct fan_node_mount;

/* cffi: begin */
/* Longer records are only fetched ahead: a client that reads a part of one needs only that part. */
enum { FAN_FILL_MAX_BYTES = 8388608 };
/* cffi: end */

/* copy_bytes: room for copies of other ranks' records (../fetch/copies.c), of which each takes
 * its part; copy_next: the first record that was not looked at for that. starts: for each pack, the
 * bytes of the packs before it; packs that are staged whole somewhere count as 0 bytes; NULL if
 * there are no partial packs. bounds: rank r's share begins at bounds[r]; memory_bounds: the same
 * for memories. spoiled: for each pack, whether another file lies in its place; full: the disk took
 * no more; both atomic. */
struct fan_share {
    struct fan_partial partial;
    uint64_t *starts;
    uint64_t *bounds;
    uint64_t *memory_bounds;
    uint64_t largest_bytes;
    uint64_t copy_bytes;
    uint64_t copy_next;
    uint32_t *spoiled;
    uint32_t world_size;
    uint32_t own_rank;
    uint32_t full;
};

/* Sets the share of a mount; world_size, own_rank and largest_bytes must be set. Each list has
 * world_size + 1 bounds. Returns 0 or -errno. */
int fan_share_init(struct fan_node_mount *mount, const uint64_t *bounds,
                   const uint64_t *memory_bounds);
void fan_share_fini(struct fan_share *share);

/* Returns the rank whose disk keeps the record of a request, or FAN_NO_RANK. */
uint32_t fan_share_rank(const struct fan_node_mount *mount,
                        const struct fan_fetch_request *request);

/* Returns the rank whose memory keeps the record of a request, or FAN_NO_RANK. */
uint32_t fan_share_memory_rank(const struct fan_node_mount *mount,
                               const struct fan_fetch_request *request);

/* Returns whether this rank's memory keeps the record of a request. */
bool fan_share_is_in_memory(const struct fan_node_mount *mount,
                            const struct fan_fetch_request *request);

/* Returns how many granules of the cache the records take that this rank's memory keeps. */
uint64_t fan_share_memory_granules(const struct fan_mounts *mounts, uint32_t mount);

/* Returns whether the record of a request is here, in a partial pack. */
bool fan_share_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request);

/* Returns whether a record must be fetched or checked: it is in this rank's share and not here, or
 * an earlier job left it. */
bool fan_share_is_missing(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* Like fan_share_is_missing, for the record of a request; false if the record is too long to be
 * read whole. */
bool fan_share_wants(const struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* Returns whether this rank may keep a copy of a record that it need not keep: other ranks have it,
 * none of them on this node, and there is room. note_copy takes the room. The node thread alone
 * calls these. */
bool fan_share_may_copy(const struct fan_mounts *mounts, const struct fan_fetch_request *request);
void fan_share_note_copy(struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* Returns a request for all of a record's stored bytes. */
struct fan_fetch_request fan_record_request(const struct fan_node_mount *mount, uint32_t number,
                                            uint64_t id);
