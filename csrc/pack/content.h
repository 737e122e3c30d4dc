/*
 * Where the bytes of a file lie inside its pack: the extent of the whole, and of each block.
 * References of a record are checked here, once, before any byte is touched.
 */
#ifndef FAN_PACK_CONTENT_H
#define FAN_PACK_CONTENT_H

#include <stddef.h>
#include <stdint.h>

#include "../common/index.h"

/* One independently decoded piece of a file. stored_offset counts from the file's stored start. */
struct fan_block {
    uint64_t logical_offset;
    uint64_t logical_bytes;
    uint64_t stored_offset;
    uint64_t stored_bytes;
    unsigned codec; /* FAN_CODEC_STORE when this block did not compress */
};

/* Checks that a regular file's record stays inside its pack. 0, or -EIO. */
int fan_content_check(const struct fan_index *index, const struct fan_record *record);

/* The number of blocks of a compressed file: 1 up to block_bytes. */
uint64_t fan_content_block_count(const struct fan_index *index, const struct fan_record *record);

/* The bytes of block table in front of the blocks: 0 for a file of one block. */
uint64_t fan_content_table_bytes(const struct fan_index *index, const struct fan_record *record);

/* Describes block `number` of a compressed file. `ends` holds the two table words around it (end of
 * the block before and of this one), both ignored for a file of one block. 0, or -EIO. */
int fan_content_block(const struct fan_index *index, const struct fan_record *record,
                      uint64_t number, const uint64_t ends[2], struct fan_block *block);

#endif
