/*
 * The share that each rank keeps of a dataset that lies on the local disks in part; every rank
 * knows the shares of all. Either the records in the order of their packs and offsets are divided
 * among the ranks at `bounds`: what is behind the last is on no disk, as is what is too large for
 * any. Or `keepers` says of each record which ranks keep it, none, one or several. A record comes
 * here when it is first read (keep.h), or ahead (keep_run.h). What is on no disk is divided among
 * the ranks' memories, as far as these go, by bounds of their own; there it is kept in the block
 * cache (../serve/from_cache.h).
 */
#ifndef FAN_NODE_SHARE_H
#define FAN_NODE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "../../local/partial.h"
#include "../machine/transport.h"

struct fan_mounts;
struct fan_node_mount;

/* cffi: begin */
/* Longer records come here ahead alone: whoever reads a part of one wants just that part. */
enum { FAN_FILL_MAX_BYTES = 8388608 };
/* cffi: end */

/* starts: of each pack, in bytes before it in that order; packs that are staged whole somewhere
 * take none; NULL: there are no partial packs. bounds: of rank r from bounds[r] on; memory_bounds:
 * the same of memories. keepers: a row of fan_share_row_bytes for each record, in which bit r % 8
 * of byte r / 8 is that of rank r; or NULL, as bounds is where there are keepers. spoiled: of each
 * pack, whether something else lies in its place; full: the disk took no more; both atomic. */
struct fan_share {
    struct fan_partial partial;
    uint64_t *starts;
    uint64_t *bounds;
    uint8_t *keepers;
    uint64_t *memory_bounds;
    uint64_t largest_bytes;
    uint32_t *spoiled;
    uint32_t world_size;
    uint32_t own_rank;
    uint32_t full;
};

static inline size_t fan_share_row_bytes(uint32_t world_size)
{
    return (size_t)world_size / 8 + (world_size % 8 != 0);
}

/* Sets the share of a mount, whose ranks are set: by world_size + 1 bounds, where the largest
 * record is set, too, or by a row of keepers for each record; the other is NULL. 0 or -errno. */
int fan_share_init(struct fan_node_mount *mount, const uint64_t *bounds, const uint8_t *keepers,
                   const uint64_t *memory_bounds);
void fan_share_fini(struct fan_share *share);

/* The ranks that keep the record of a request, at most `most` of them; of several, each rank sees
 * others first. Returns how many. */
uint32_t fan_share_ranks(const struct fan_node_mount *mount,
                         const struct fan_fetch_request *request, uint32_t *ranks, uint32_t most);

/* The rank whose memory keeps the record of a request; FAN_NO_RANK. */
uint32_t fan_share_memory_rank(const struct fan_node_mount *mount,
                               const struct fan_fetch_request *request);

/* Whether the record of a request is here, in a partial pack. */
bool fan_share_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request);

/* Whether a record has to be brought, for it is of this rank's share and not here; or checked, for
 * an earlier job left it. */
bool fan_share_is_missing(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* The same of the record of a request, which must also be short enough to be read whole. */
bool fan_share_wants(const struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* A request for all of a record's stored bytes. */
struct fan_fetch_request fan_record_request(const struct fan_node_mount *mount, uint32_t number,
                                            uint64_t id);

#endif
