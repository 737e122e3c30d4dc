/*
 * The file `resident` in a staged dataset's directory: what its partial packs hold.
 *
 * A partial pack, pack-00042.fsp.sparse, is a sparse file of the pack's size with the same offsets.
 * All jobs of the user that serve the dataset on this node map the one file and share the packs. A
 * record's bit is set (release) after its bytes were written and found right, and is cleared by
 * nobody while the file is in use, so that no reader ever meets a hole. The first job that takes
 * the file over turns all bits into claims: what they speak of may have rotted since, or may never
 * have reached the disk. A claim is checked before its bit is set again.
 *
 *     header | inode of each partial pack, 0 until there is one | a bit for each record | its claim
 *
 * A file of another inode is not the partial pack that the bits speak of. Inodes, bits and claims
 * are atomic.
 */
#ifndef FAN_FORMAT_RESIDENT_FORMAT_H
#define FAN_FORMAT_RESIDENT_FORMAT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FAN_RESIDENT_MAGIC "FANRESI\n"

/* cffi: begin */
enum { FAN_RESIDENT_VERSION = 2, FAN_RESIDENT_LAYOUT_ID = 0x46520002 };

struct fan_resident_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t layout_id;
    uint64_t record_count;
    uint64_t pack_count;
    uint8_t reserved[96];
};
/* cffi: end */

static inline uint64_t fan_resident_bits_offset(uint64_t pack_count)
{
    return sizeof(struct fan_resident_header) + pack_count * sizeof(uint64_t);
}

static inline uint64_t fan_resident_claims_offset(uint64_t record_count, uint64_t pack_count)
{
    return fan_resident_bits_offset(pack_count) + (record_count / 64 + 1) * sizeof(uint64_t);
}

static inline uint64_t fan_resident_bytes(uint64_t record_count, uint64_t pack_count)
{
    return fan_resident_claims_offset(record_count, pack_count) +
           (record_count / 64 + 1) * sizeof(uint64_t);
}

/* Whether a mapped file of fan_resident_bytes is of this version and of such a dataset. */
static inline bool fan_resident_is_of(const void *base, uint64_t record_count, uint64_t pack_count)
{
    const struct fan_resident_header *header = base;
    return memcmp(header->magic, FAN_RESIDENT_MAGIC, sizeof(header->magic)) == 0 &&
           header->version == FAN_RESIDENT_VERSION && header->layout_id == FAN_RESIDENT_LAYOUT_ID &&
           header->record_count == record_count && header->pack_count == pack_count;
}

#endif
