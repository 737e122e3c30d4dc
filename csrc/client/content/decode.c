#include "decode.h"

#include <errno.h>
#include <string.h>

#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../../pack/codec.h"
#include "../../pack/content.h"
#include "../machine/copy.h"
#include "stored.h"

/* A block, and the file to which it belongs. */
struct wanted {
    unsigned generation;
    uint64_t number;
    struct fan_block block;
};

static int find_block(struct fan_file *file, uint64_t number, struct fan_block *block)
{
    const struct fan_index *index = &file->dataset->index;
    const struct fan_record *record = file->record;
    uint64_t ends[2] = {0, 0};
    if (fan_content_table_bytes(index, record) > 0) {
        uint64_t skip = number > 0 ? 1 : 0;
        int rc = fan_stored_read(file, (char *)&ends[1 - skip], (number - skip) * sizeof(uint64_t),
                                 (1 + skip) * sizeof(uint64_t));
        if (rc != 0)
            return rc;
    }
    return fan_content_block(index, record, number, ends, block);
}

/* Decodes a block to `to`, which has room for its logical bytes. */
static int decode_block(struct fan_file *file, const struct fan_block *block, char *to)
{
    if (block->codec == FAN_CODEC_STORE)
        return fan_stored_read(file, to, block->stored_offset, block->stored_bytes);
    if (block->stored_bytes == 0)
        return -EIO;
    struct fan_span span;
    int rc;
    do {
        rc = fan_stored_pin(file, block->stored_offset, block->stored_bytes, &span);
        if (rc != 0)
            return rc;
        rc = fan_touch(span.at, block->stored_bytes); /* a library's decoder must not fault */
        if (rc == 0)
            rc = fan_codec_decode(block->codec, to, block->logical_bytes, span.at,
                                  block->stored_bytes);
    } while (!fan_stored_unpin(&span)); /* false: the bytes were lost, and are read elsewhere */
    return rc;
}

/* Decodes into the program's memory. Touches that memory first, because a library's decoder must
 * not fault. */
static int decode_direct(struct fan_file *file, const struct fan_block *block, char *to)
{
    int rc = fan_blot(to, block->logical_bytes);
    return rc != 0 ? rc : decode_block(file, block, to);
}

/* Returns whether `held` has block `number`. Only a hint for threads that do not hold `busy`. */
static bool holds(const struct fan_decoded *held, uint64_t number)
{
    return atomic_load_explicit(&held->block, memory_order_relaxed) == number + 1;
}

/* Decodes a block into `held`, and enlarges its buffer if needed. */
static int hold_block(struct fan_file *file, struct fan_decoded *held, const struct wanted *wanted)
{
    const struct fan_block *block = &wanted->block;
    if (holds(held, wanted->number) && held->generation == wanted->generation)
        return 0;
    atomic_store_explicit(&held->block, 0, memory_order_relaxed);
    if (held->capacity < block->logical_bytes) {
        fan_decoded_fini(held);
        held->bytes = fan_sys_memory(block->logical_bytes);
        if (held->bytes == NULL)
            return -ENOMEM;
        held->capacity = block->logical_bytes;
    }
    int rc = decode_block(file, block, held->bytes);
    if (rc == 0) {
        atomic_store_explicit(&held->block, wanted->number + 1, memory_order_relaxed);
        held->generation = wanted->generation;
        FAN_COUNT(decoded_bytes, block->logical_bytes);
    }
    return rc;
}

static int decode_part(struct fan_file *file, const struct wanted *wanted, char *to, uint64_t skip,
                       uint64_t bytes)
{
    struct fan_decoded own = {.busy = ATOMIC_FLAG_INIT};
    struct fan_decoded *held = &file->decoded;
    bool mine = !atomic_flag_test_and_set_explicit(&held->busy, memory_order_acquire);
    if (!mine)
        held = &own;
    int rc = hold_block(file, held, wanted);
    if (rc == 0)
        rc = fan_copy(to, held->bytes + skip, bytes);
    if (mine)
        atomic_flag_clear_explicit(&held->busy, memory_order_release);
    else
        fan_decoded_fini(held);
    return rc;
}

ssize_t fan_decode_read(struct fan_file *file, unsigned generation, char *to, uint64_t offset,
                        size_t bytes)
{
    uint64_t block_bytes = file->dataset->index.header->block_bytes;
    struct wanted wanted = {.generation = generation};
    const struct fan_block *block = &wanted.block;
    size_t done = 0;
    while (done < bytes) {
        wanted.number = (offset + done) / block_bytes;
        int rc = find_block(file, wanted.number, &wanted.block);
        if (rc == 0) {
            uint64_t skip = offset + done - block->logical_offset;
            uint64_t part = block->logical_bytes - skip;
            if (part > bytes - done)
                part = bytes - done;
            if (part == block->logical_bytes && !holds(&file->decoded, wanted.number))
                rc = decode_direct(file, block, to + done);
            else
                rc = decode_part(file, &wanted, to + done, skip, part);
            if (rc == 0)
                done += part;
        }
        if (rc != 0)
            return done > 0 ? (ssize_t)done : rc;
    }
    return (ssize_t)done;
}
