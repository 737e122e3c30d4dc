/*
 * The file `resident` in a staged dataset's directory: it lists the records in the partial packs.
 *
 * A partial pack, pack-00042.fsp.sparse, is a sparse file of the pack's size with the same offsets.
 * All jobs of the user that serve the dataset on this node map the same file and share the packs. A
 * record's bit is set (release) after its bytes were written and checked. No one clears it while
 * the file is in use, so a reader never meets a hole. The first job that takes the file over turns
 * all bits into claims: the records' bytes may have rotted since, or may never have reached the
 * disk. A job checks the record of a claim before it sets the bit again.
 *
 *     header | inode of each partial pack, 0 until there is one | a bit for each record | its claim
 *
 * If a pack file has another inode, it is not the partial pack to which the bits refer. Inodes,
 * bits and claims are atomic.
 */
#pragma once

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

/* Returns whether the mapped file at `base`, fan_resident_bytes long, has this version and belongs
 * to a dataset with these counts. */
static inline bool fan_resident_is_of(const void *base, uint64_t record_count, uint64_t pack_count)
{
    const struct fan_resident_header *header = base;
    return memcmp(header->magic, FAN_RESIDENT_MAGIC, sizeof(header->magic)) == 0 &&
           header->version == FAN_RESIDENT_VERSION && header->layout_id == FAN_RESIDENT_LAYOUT_ID &&
           header->record_count == record_count && header->pack_count == pack_count;
}
