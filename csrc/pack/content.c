#include "content.h"

#include <errno.h>

#include "../format/pack_format.h"

int fan_content_check(const struct fan_index *index, const struct fan_record *record)
{
    if (!S_ISREG(record->mode) || record->logical_size > INT64_MAX)
        return -EIO;
    if (record->logical_size == 0)
        return 0;
    if (record->pack >= index->pack_count || record->codec >= FAN_CODEC_COUNT)
        return -EIO;
    if (record->codec == FAN_CODEC_STORE && record->stored_size != record->logical_size)
        return -EIO;
    uint64_t pack_bytes = index->packs[record->pack].file_bytes;
    if (record->offset < FAN_PACK_HEADER_BYTES || record->offset > pack_bytes ||
        record->stored_size > pack_bytes - record->offset)
        return -EIO;
    if (record->codec != FAN_CODEC_STORE &&
        fan_content_table_bytes(index, record) > record->stored_size)
        return -EIO;
    return 0;
}

uint64_t fan_content_block_count(const struct fan_index *index, const struct fan_record *record)
{
    uint64_t block_bytes = index->header->block_bytes;
    return record->logical_size / block_bytes + (record->logical_size % block_bytes != 0);
}

uint64_t fan_content_table_bytes(const struct fan_index *index, const struct fan_record *record)
{
    uint64_t blocks = fan_content_block_count(index, record);
    return blocks > 1 ? blocks * sizeof(uint64_t) : 0;
}

int fan_content_block(const struct fan_index *index, const struct fan_record *record,
                      uint64_t number, const uint64_t ends[2], struct fan_block *block)
{
    uint64_t block_bytes = index->header->block_bytes;
    uint64_t table_bytes = fan_content_table_bytes(index, record);
    uint64_t start = number * block_bytes;
    uint64_t rest = record->logical_size - start;
    block->logical_offset = start;
    block->logical_bytes = rest < block_bytes ? rest : block_bytes;
    block->codec = record->codec;
    if (table_bytes == 0) {
        block->stored_offset = 0;
        block->stored_bytes = record->stored_size;
        return 0;
    }
    uint64_t from = number == 0 ? table_bytes : ends[0];
    if (from < table_bytes || ends[1] < from || ends[1] > record->stored_size)
        return -EIO;
    block->stored_offset = from;
    block->stored_bytes = ends[1] - from;
    if (block->stored_bytes == block->logical_bytes)
        block->codec = FAN_CODEC_STORE;
    return 0;
}
