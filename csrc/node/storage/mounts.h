/*
 * The datasets of the job, for the node daemon: where each mount's packs are, which other ranks
 * have them, and mappings of the staged ones. Checks every record and offset from a client or
 * another rank against the index before it is used.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../../common/index.h"
#include "../../format/shm_format.h"
#include "../machine/object_part.h"
#include "../machine/piece.h"
#include "share.h"
#include "../machine/transport.h"

struct fan_replicas {
    uint32_t *ranks;
    uint32_t count;
};

/* How clients last read a file longer than FAN_FILL_MAX_BYTES that is not on this node's disk. */
enum fan_habit { FAN_READS_UNKNOWN, FAN_READS_IN_SEQUENCE, FAN_READS_PIECES };

/* places, damage, unchecked: in the job segment. unchecked_count: how many records of whole packs
 * still need a check, atomic. mapped: the mapping of each pack that is staged, or here in part, or
 * NULL. shared: a descriptor + 1 of each pack on the shared file system, or 0; any thread may use
 * it. */
struct fan_node_mount {
    struct fan_index index;
    void *index_base;
    uint64_t index_bytes;
    char *staged_dir;
    char *dataset_dir;
    uint32_t pack_count;
    bool crowded;
    struct fan_place *places;
    uint64_t *damage;
    uint64_t *unchecked;
    uint64_t unchecked_count;
    struct fan_replicas *replicas;
    char **mapped;
    int32_t *shared;
    struct fan_share share;
    enum fan_habit habit;
};

/* Returns whether a dataset is in a bucket: its packs are, or the objects that it lists. */
static inline bool fan_mount_is_far(const struct fan_node_mount *mount)
{
    return mount->dataset_dir[0] != '/';
}

static inline const struct fan_record *fan_mount_record(const struct fan_node_mount *mount,
                                                        uint64_t id)
{
    return fan_index_record(&mount->index, id);
}

/* Returns whether a record is so long that only readers in sequence soon want all of it. */
static inline bool fan_mount_is_long(const struct fan_node_mount *mount, uint64_t id)
{
    return fan_mount_record(mount, id)->stored_size > FAN_FILL_MAX_BYTES;
}

/* Counts of what the readers have done since the start. Atomic. */
struct fan_mounts_counts {
    uint64_t shared_reads;
    uint64_t shared_bytes;
    uint64_t kept_records;
    uint64_t kept_bytes;
    uint64_t full_disks;
    uint64_t damaged_records;
    uint64_t mended_records;
};

/* kept, kept_most: the number of open descriptors of packs on the shared file system, and its
 * limit. ending: fetch nothing more to this node. kept and ending are atomic. fetch_object: of the
 * options. */
struct fan_mounts {
    char *segment;
    uint64_t segment_bytes;
    uint32_t count;
    struct fan_node_mount *mounts;
    struct fan_mounts_counts counts;
    fan_fetch_object *fetch_object;
    uint32_t kept;
    uint32_t kept_most;
    uint32_t ending;
};

/* Attaches the job segment at `path` and its indexes. Returns 0, -EINVAL (not a job segment, or its
 * indexes do not match it), or -errno. */
int fan_mounts_init(struct fan_mounts *mounts, const char *path);

/* Frees and unmaps everything. Accepts a zeroed or half-made struct. */
void fan_mounts_fini(struct fan_mounts *mounts);

/* Copies the list of ranks that have a pack. Returns 0, -EINVAL, -ENOMEM. */
int fan_mounts_set_replicas(struct fan_mounts *mounts, uint32_t mount, uint32_t pack,
                            const uint32_t *ranks, uint32_t count);

/* Fills the request to another rank for a block of a file. file, block: as in a pin. Returns 0, or
 * -EIO if there is no such block. */
int fan_mounts_request(const struct fan_mounts *mounts, uint64_t file, uint64_t block,
                       struct fan_fetch_request *request);

/* Makes the request for a block one for a part of it. A part that reaches beyond the block is cut
 * there; one that has all of the block becomes the whole block, and so does one of a file that is
 * no longer than a block. Returns 0, or -EIO if the part begins outside the block. */
int fan_mounts_narrow(const struct fan_mounts *mounts, struct fan_fetch_request *request,
                      struct fan_piece *part);

/* Returns whether a record is a file with content that lies inside its pack. */
bool fan_mounts_has_content(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* Checks that the bytes that another rank requests exist. Returns 0 or -EINVAL. */
int fan_mounts_check(const struct fan_mounts *mounts, const struct fan_fetch_request *request);

/* Returns how many bytes of granules files with `bytes` of content take in a cache, where each
 * takes whole granules; but at most a quarter more than `bytes`. Looks at some of the files of all
 * mounts.
 */
uint64_t fan_mounts_in_granules(const struct fan_mounts *mounts, uint64_t bytes);
