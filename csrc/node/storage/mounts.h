/*
 * The datasets of the job as the node daemon sees them: where each mount's packs are, who else has
 * them, and the staged ones mapped. Everything that comes from a client or another rank is checked
 * here against the index before it is followed.
 */
#ifndef FAN_NODE_MOUNTS_H
#define FAN_NODE_MOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "../../common/index.h"
#include "../../format/shm_format.h"
#include "share.h"
#include "../machine/transport.h"

struct fan_replicas {
    uint32_t *ranks;
    uint32_t count;
};

/* places, damage, unchecked: in the job segment. unchecked_count: how many records of whole packs
 * are still to be checked, atomic. mapped: the mapping of each pack that is staged, or here in
 * part, or NULL. shared: a descriptor + 1 of each pack on the shared file system, or 0; by any
 * thread. */
struct fan_node_mount {
    struct fan_index index;
    void *index_base;
    uint64_t index_bytes;
    char *staged_dir;
    char *dataset_dir;
    uint32_t pack_count;
    struct fan_place *places;
    uint64_t *damage;
    uint64_t *unchecked;
    uint64_t unchecked_count;
    struct fan_replicas *replicas;
    char **mapped;
    int32_t *shared;
    struct fan_share share;
};

static inline const struct fan_record *fan_mount_record(const struct fan_node_mount *mount,
                                                        uint64_t id)
{
    return fan_index_record(&mount->index, id);
}

/* Counts of what readers did, since the start. Atomic. */
struct fan_mounts_counts {
    uint64_t shared_reads;
    uint64_t shared_bytes;
    uint64_t kept_records;
    uint64_t kept_bytes;
    uint64_t full_disks;
    uint64_t damaged_records;
    uint64_t mended_records;
};

/* kept, kept_most: descriptors of packs on the shared file system; kept is atomic, as is `ending`:
 * nothing more is to be brought here. */
struct fan_mounts {
    char *segment;
    uint64_t segment_bytes;
    uint32_t count;
    struct fan_node_mount *mounts;
    struct fan_mounts_counts counts;
    uint32_t kept;
    uint32_t kept_most;
    uint32_t ending;
};

/* Attaches the job segment at `path` and the indexes it names. 0, -EINVAL (not a segment, or it
 * and its indexes disagree), or -errno. */
int fan_mounts_init(struct fan_mounts *mounts, const char *path);

/* Accepts a zeroed or half-made one. */
void fan_mounts_fini(struct fan_mounts *mounts);

/* Copies the list of who has a pack. 0, -EINVAL, -ENOMEM. */
int fan_mounts_set_replicas(struct fan_mounts *mounts, uint32_t mount, uint32_t pack,
                            const uint32_t *ranks, uint32_t count);

/* The request to another rank for a block of a file, both as in a pin. 0, or -EIO when there is no
 * such block. */
int fan_mounts_request(const struct fan_mounts *mounts, uint64_t file, uint64_t block,
                       struct fan_fetch_request *request);

/* Whether a record is that of a file with content, and lies inside its pack. */
bool fan_mounts_has_content(const struct fan_mounts *mounts, uint32_t mount, uint64_t record);

/* Whether a request from elsewhere is for bytes that there are. 0 or -EINVAL. */
int fan_mounts_check(const struct fan_mounts *mounts, const struct fan_fetch_request *request);

#endif
