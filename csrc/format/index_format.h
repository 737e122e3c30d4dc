/*
 * The index: the metadata of a whole dataset, mapped and used as it is on disk.
 *
 * docs/format.md specifies the layout in prose. Everything is little-endian. Records are in
 * breadth-first order: the children of a directory follow each other, sorted by name, and a
 * parent's id is smaller than its child's. Record 0 is the root and its own parent.
 */
#pragma once

#include <stdint.h>

#define FAN_INDEX_MAGIC "FANINDX\n"

/* cffi: begin */
enum {
    FAN_INDEX_LAYOUT_ID = 0x46490001,
    FAN_INDEX_HEADER_BYTES = 512,
    FAN_INDEX_VERSION = 3, /* of new indexes */
    FAN_SECTION_ALIGN_BYTES = 64,
    FAN_RECORD_BYTES = 64,
    FAN_RECORDS_PER_MILESTONE = 64,
    FAN_OLD_SLOT_ID_BITS = 40,    /* of slots of 8 bytes, in versions 1 and 2 */
    FAN_DENTRIES_PER_PART = 1024, /* on average */
    FAN_DENTRIES_PER_PILOT = 4
};

enum fan_section_kind {
    FAN_SECTION_RECORDS = 0,
    FAN_SECTION_SLOTS = 1,
    FAN_SECTION_NAMES = 2,
    FAN_SECTION_OWNERS = 3,
    FAN_SECTION_LINKS = 4,
    FAN_SECTION_PACKS = 5,
    FAN_SECTION_DENTRIES = 6,
    FAN_SECTION_PILOTS = 7,
    FAN_SECTION_PARTS = 8,
    FAN_SECTION_TAGS = 9,
    FAN_SECTION_MILESTONES = 10,
    FAN_SECTION_COUNT = 11
};

enum fan_index_flags {
    FAN_INDEX_ALL_SEARCHABLE = 1,
    FAN_INDEX_ALL_READABLE = 2,
    FAN_INDEX_HAS_SYMLINKS = 4,
    FAN_INDEX_PLANNED = 8 /* the packs do not exist: content comes from the originals */
};

struct fan_section {
    uint64_t offset;
    uint64_t count;
    uint32_t kind;
    uint32_t entry_bytes;
};

struct fan_index_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t layout_id;
    uint64_t file_bytes;
    uint8_t dataset_id[16];
    uint8_t plan_id[16];
    uint64_t record_count;
    uint64_t file_count;
    uint64_t directory_count;
    uint64_t symlink_count;
    uint64_t logical_bytes;
    uint64_t stored_bytes;
    uint32_t pack_count;
    uint32_t block_bytes;
    uint32_t max_probe;
    uint32_t flags;
    uint32_t codec_mask;
    uint32_t section_count;
    struct fan_section sections[11];
    uint64_t reserved[13];
    uint64_t body_checksum;
    uint64_t header_checksum;
};

/* One file, directory or symbolic link. By type (mode & S_IFMT):
 *   regular    logical_size, stored_size, pack, offset, codec, checksum as in the pack; where packs
 *              are planned, checksum is the state of the original (common/original.h)
 *   directory  offset: id of the first child; stored_size: number of children
 *   symlink    offset, logical_size: the target in the names section */
struct fan_record {
    uint64_t logical_size;
    uint64_t stored_size;
    uint64_t offset;
    uint64_t checksum;
    int64_t mtime_ns;
    uint64_t name_offset;
    uint32_t parent;
    uint32_t pack;
    uint16_t mode;
    uint16_t owner;
    uint16_t nlink;
    uint8_t name_bytes;
    uint8_t codec;
};

/* Versions 1 and 2 are read, too. Version 1 ends with the packs. Version 2 has dentries instead of
 * slots, unless two of its paths have the same hash: a perfect hash gives the only dentry that a
 * path can have, and that names the record. Fields as in the record; if the name is longer than 32
 * bytes, `name` holds its first 32. */
struct fan_dentry {
    uint64_t logical_size;
    int64_t mtime_ns;
    uint32_t id;
    uint32_t parent;
    uint16_t mode;
    uint16_t owner;
    uint16_t nlink;
    uint8_t name_bytes;
    uint8_t reserved;
    uint8_t name[32];
};

/* The dentries of one range of path hashes: from number `first` up to the `first` of the next part.
 * `seed` is a parameter of the hash that gives their positions. The last part is empty; its `first`
 * is the number of dentries. */
struct fan_part {
    uint32_t first;
    uint32_t seed;
};

struct fan_owner {
    uint32_t uid;
    uint32_t gid;
};

/* Another name of a hard-linked file: `record` reports the inode number of the record `first`.
 * Sorted by record. */
struct fan_link {
    uint64_t record;
    uint64_t first;
};

struct fan_pack_info {
    uint64_t file_bytes;
    uint64_t checksum;
    uint64_t entry_count;
    uint64_t logical_bytes;
    uint32_t flags;
    uint32_t reserved;
};
/* cffi: end */
