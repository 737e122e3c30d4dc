/*
 * The pack file: one large file that holds the content of many small ones.
 *
 * docs/format.md specifies the layout in prose. Everything is little-endian. The text between the
 * two cffi marks is passed unchanged to cffi, so it has only fixed-width fields and literal values.
 *
 *     header (4096 bytes) | data | entries | paths | trailer (64 bytes)
 */
#pragma once

#include <stdint.h>

#define FAN_PACK_MAGIC "FANPACK\n"
#define FAN_PACK_TRAILER_MAGIC "FANPEND\n"

/* cffi: begin */
enum {
    FAN_FORMAT_VERSION = 1,
    FAN_PACK_LAYOUT_ID = 0x46500001,
    FAN_PACK_HEADER_BYTES = 4096,
    FAN_DATA_ALIGN_BYTES = 64,
    FAN_MAP_ALIGN_BYTES = 4096,
    FAN_MAP_THRESHOLD_BYTES = 65536,
    FAN_HUGE_ALIGN_BYTES = 2097152,
    FAN_HUGE_THRESHOLD_BYTES = 16777216,
    FAN_NAME_MAX_BYTES = 255
};

enum fan_codec {
    FAN_CODEC_STORE = 0,
    FAN_CODEC_LZ4 = 1,
    FAN_CODEC_LZ4HC = 2,
    FAN_CODEC_ZSTD = 3,
    FAN_CODEC_COUNT = 4
};

enum fan_pack_flags { FAN_PACK_EVERYWHERE = 1, FAN_PACK_CATALOGUE = 2, FAN_PACK_KEPT = 4 };

struct fan_pack_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t layout_id;
    uint8_t plan_id[16];
    uint32_t pack;
    uint32_t pack_count;
    uint32_t block_bytes;
    uint32_t flags;
    uint64_t reserved;
    uint64_t checksum;
};

struct fan_pack_trailer {
    uint8_t magic[8];
    uint64_t entries_offset;
    uint64_t entry_count;
    uint64_t paths_offset;
    uint64_t paths_bytes;
    uint64_t footer_checksum;
    uint64_t file_bytes;
    uint64_t checksum;
};

struct fan_pack_entry {
    uint64_t logical_size;
    uint64_t stored_size;
    uint64_t offset;
    uint64_t checksum;
    int64_t mtime_ns;
    uint64_t path_offset;
    uint64_t link_id;
    uint32_t path_bytes;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t codec;
    uint32_t holder;
};
/* cffi: end */
