/*
 * What each rank keeps of a dataset that lies on the local disks in part. The records in the order
 * of their packs and offsets are divided among the ranks at `bounds`; every rank knows all of them.
 * What is behind the last is on no disk, as is what is too large for any. A record comes here when
 * it is first read (keep.h), or ahead (run.h). What is on no disk is divided among the ranks'
 * memories, as far as these go, in the same way; there it is kept in the block cache (../lend.h).
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
 * take none. bounds: of rank r from bounds[r] on; memory_bounds: the same
 * of memories; NULL: there are no partial packs. spoiled: of
 * each pack, whether something else lies in its place; full: the disk took no more; both atomic. */
struct fan_share {
    struct fan_partial partial;
    uint64_t *starts;
    uint64_t *bounds;
    uint64_t *memory_bounds;
    uint64_t largest_bytes;
    uint32_t *spoiled;
    uint32_t world_size;
    uint32_t own_rank;
    uint32_t full;
};

/* Sets the share of a mount, whose ranks and largest record are set: world_size + 1 bounds of each
 * kind. 0 or -errno. */
int fan_share_init(struct fan_node_mount *mount, const uint64_t *bounds,
                   const uint64_t *memory_bounds);
void fan_share_fini(struct fan_share *share);

/* The rank whose share the record of a request is; FAN_NO_RANK. */
uint32_t fan_share_rank(const struct fan_node_mount *mount,
                        const struct fan_fetch_request *request);

/* The rank whose memory keeps the record of a request; FAN_NO_RANK. */
uint32_t fan_share_memory_rank(const struct fan_node_mount *mount,
                               const struct fan_fetch_request *request);

/* Whether the record of a request is here, in a partial pack. */
bool fan_share_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request);

/* Whether the record of a request is to be kept here, is not, and may be read whole for it. */
bool fan_share_wants(const struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* Whether a record is to be kept here and is not. */
bool fan_share_is_missing(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* A request for all of a record's stored bytes. */
struct fan_fetch_request fan_share_whole(const struct fan_node_mount *mount, uint32_t number,
                                         uint64_t id);

#endif
