/*
 * What each rank keeps of a dataset that lies on the local disks in part, and how it comes there.
 * The records in the order of their packs and offsets are divided among the ranks at `bounds`;
 * every rank knows all of them. What is behind the last is nobody's, as is what is too large for
 * any. A record comes here when it is first read, or ahead (ahead.h). Only what was found right is
 * kept; what was read twice and is not the content that the index speaks of is marked as damaged.
 */
#ifndef FAN_NODE_SHARE_H
#define FAN_NODE_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "../local/partial.h"
#include "transport.h"

struct fan_mounts;
struct fan_node_mount;

/* cffi: begin */
/* Longer records come here ahead alone: whoever reads a part of one wants just that part. */
enum { FAN_FILL_MAX_BYTES = 8388608 };
/* cffi: end */

/* starts: of each pack, in bytes before it in that order; packs that are staged whole somewhere
 * take none. bounds: of rank r from bounds[r] on; NULL: there are no partial packs. spoiled: of
 * each pack, whether something else lies in its place; full: the disk took no more; both atomic. */
struct fan_share {
    struct fan_partial partial;
    uint64_t *starts;
    uint64_t *bounds;
    uint64_t largest_bytes;
    uint32_t *spoiled;
    uint32_t world_size;
    uint32_t own_rank;
    uint32_t full;
};

/* Sets the share of a mount, whose ranks and largest record are set: world_size + 1 bounds. 0 or
 * -errno. */
int fan_share_init(struct fan_node_mount *mount, const uint64_t *bounds);
void fan_share_fini(struct fan_share *share);

/* The rank whose share the record of a request is; FAN_NO_RANK. */
uint32_t fan_share_rank(const struct fan_node_mount *mount,
                        const struct fan_fetch_request *request);

/* Whether the record of a request is here, in a partial pack. */
bool fan_share_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request);

/* Whether the record of a request is to be kept here, is not, and may be read whole for it. */
bool fan_share_wants(const struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* Whether a record is to be kept here and is not. */
bool fan_share_is_missing(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* The functions below read the shared file system, by any thread. */

/* Brings a record that is wanted here. Its stored bytes in `stored`, the caller's to free; NULL: it
 * was here already. 0 (also where the disk takes no more), -EBUSY: another thread is at it for too
 * long, -EIO, -ENOMEM, -EMFILE. */
int fan_share_fill(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                   char **stored);

/* The bytes of a request of this node's own, whose record is kept where it is wanted. A record that
 * the request holds as a whole is checked. 0, -EIO, or -errno where this process lacks something.
 */
int fan_share_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to);

/* Brings `count` records of one pack, rising in it, that lie within FAN_FILL_MAX_BYTES; or just
 * one. 0, -ENOSPC: the disk takes no more, or -errno: some are not here.
 */
int fan_share_fill_run(struct fan_mounts *mounts, uint32_t mount, const uint64_t *records,
                       uint64_t count);

#endif
