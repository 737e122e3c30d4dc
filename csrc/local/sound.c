#include "sound.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../format/pack_format.h"
#include "../pack/codec.h"
#include "../pack/content.h"
#include "xxh3.h"

enum { PIECE_BYTES = 1 << 20 };

static int add_stored(const struct fan_record *record, const struct fan_stored *stored,
                      struct fan_xxh3 *hash)
{
    for (uint64_t done = 0; done < record->stored_size;) {
        uint64_t rest = record->stored_size - done;
        uint64_t bytes = rest < PIECE_BYTES ? rest : PIECE_BYTES;
        const char *piece = stored->at(stored, done, bytes);
        if (piece == NULL)
            return -ENODATA;
        fan_xxh3_add(hash, piece, bytes);
        done += bytes;
    }
    return 0;
}

/* Reads from the block table where block `number` ends, and where the block before it ends. */
static int read_ends(const struct fan_stored *stored, uint64_t number, uint64_t ends[2])
{
    uint64_t first = number == 0 ? 0 : number - 1, count = number == 0 ? 1 : 2;
    const char *words = stored->at(stored, first * sizeof(*ends), count * sizeof(*ends));
    if (words == NULL)
        return -ENODATA;
    memcpy(ends + 2 - count, words, count * sizeof(*ends));
    return 0;
}

static int add_block(const struct fan_index *index, const struct fan_record *record,
                     const struct fan_stored *stored, uint64_t number, char *scratch,
                     struct fan_xxh3 *hash)
{
    struct fan_block block;
    uint64_t ends[2] = {0, 0};
    int rc = fan_content_table_bytes(index, record) > 0 ? read_ends(stored, number, ends) : 0;
    if (rc == 0)
        rc = fan_content_block(index, record, number, ends, &block);
    if (rc == 0 && block.stored_bytes > 2 * (uint64_t)index->header->block_bytes)
        rc = -EIO; /* no codec compresses a block to more bytes */
    if (rc != 0)
        return rc;
    const char *from = stored->at(stored, block.stored_offset, block.stored_bytes);
    if (from == NULL)
        return -ENODATA;
    if (block.codec != FAN_CODEC_STORE) {
        rc = fan_codec_decode(block.codec, scratch, block.logical_bytes, from, block.stored_bytes);
        from = scratch;
    }
    if (rc == 0)
        fan_xxh3_add(hash, from, block.logical_bytes);
    return rc;
}

static int add_decoded(const struct fan_index *index, const struct fan_record *record,
                       const struct fan_stored *stored, struct fan_xxh3 *hash)
{
    uint64_t count = fan_content_block_count(index, record);
    char *scratch = malloc(count > 1 ? index->header->block_bytes : record->logical_size);
    if (scratch == NULL)
        return -ENOMEM;
    int rc = 0;
    for (uint64_t number = 0; rc == 0 && number < count; number++)
        rc = add_block(index, record, stored, number, scratch, hash);
    free(scratch);
    return rc;
}

int fan_content_sum(const struct fan_index *index, const struct fan_record *record,
                    const struct fan_stored *stored, uint64_t *sum)
{
    struct fan_xxh3 hash;
    fan_xxh3_begin(&hash, record->logical_size);
    int rc = record->codec == FAN_CODEC_STORE ? add_stored(record, stored, &hash)
                                              : add_decoded(index, record, stored, &hash);
    if (rc == 0)
        *sum = fan_xxh3_end(&hash);
    return rc;
}

int fan_check_sound(const struct fan_index *index, const struct fan_record *record,
                    const struct fan_stored *stored)
{
    uint64_t sum;
    int rc = fan_content_sum(index, record, stored, &sum);
    if (rc != 0)
        return rc;
    return sum == record->checksum ? 0 : -EIO;
}

static const char *in_memory(const struct fan_stored *stored, uint64_t offset, uint64_t bytes)
{
    (void)bytes;
    return (const char *)stored->of + offset;
}

struct fan_stored fan_stored_in_memory(const char *bytes)
{
    return (struct fan_stored){.at = in_memory, .of = (void *)bytes};
}
