/*
 * Finds the bytes of a file inside its pack: the extent of the whole file, and of each block.
 * Checks the record's offsets and sizes once, before any byte is read.
 */
#pragma once

#include <stdint.h>

#include "../common/index.h"

/* A piece of a file that is decoded by itself. stored_offset counts from the start of the file's
 * stored bytes. */
struct fan_block {
    uint64_t logical_offset;
    uint64_t logical_bytes;
    uint64_t stored_offset;
    uint64_t stored_bytes;
    unsigned codec; /* FAN_CODEC_STORE if compression did not make this block smaller */
};

/* Checks that the bytes of a regular file's record lie inside its pack. Returns 0 or -EIO. */
int fan_content_check(const struct fan_index *index, const struct fan_record *record);

/* Returns the number of blocks of a compressed file: 1 for content of up to block_bytes. */
uint64_t fan_content_block_count(const struct fan_index *index, const struct fan_record *record);

/* Returns the size of the block table in front of the blocks: 0 for a file of one block. */
uint64_t fan_content_table_bytes(const struct fan_index *index, const struct fan_record *record);

/* Describes block `number` of a compressed file. ends: the ends of the block before and of this
 * one, from the table; ignored for a file of one block. Returns 0 or -EIO. */
int fan_content_block(const struct fan_index *index, const struct fan_record *record,
                      uint64_t number, const uint64_t ends[2], struct fan_block *block);
