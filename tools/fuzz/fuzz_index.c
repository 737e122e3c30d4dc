/* Attaches untrusted bytes as an index, and calls every accessor for every record. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tree.h"

enum { RECORDS_MAX = 2048 };

static volatile uint64_t sink;

static void touch(const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sink += (unsigned char)bytes[i];
}

static void use_content(const struct fan_index *index, const struct fan_record *record)
{
    if (fan_content_check(index, record) != 0 || record->codec == 0 || record->logical_size == 0)
        return;
    uint64_t ends[2] = {record->checksum, record->offset};
    uint64_t count = fan_content_block_count(index, record);
    for (uint64_t number = 0; number < count && number < 4; number++) {
        struct fan_block block;
        if (fan_content_block(index, record, number, ends, &block) != 0)
            continue;
        if (block.stored_offset > record->stored_size ||
            block.stored_bytes > record->stored_size - block.stored_offset ||
            block.logical_offset > record->logical_size ||
            block.logical_bytes > record->logical_size - block.logical_offset)
            abort();
    }
}

/* Checks that looking up a record's own path finds that record. */
static void use_path(const struct fan_index *index, uint64_t id)
{
    char path[4096], small[8];
    uint64_t hash;
    fan_index_path(index, id, small, sizeof(small));
    fan_index_path_hash(index, id, &hash);
    int64_t bytes = fan_index_path(index, id, path, sizeof(path));
    if (bytes < 0)
        return;
    int64_t found = fan_index_lookup(index, path, (size_t)bytes);
    if (found >= (int64_t)index->record_count)
        abort();
}

static void use_record(const struct fan_index *index, uint64_t id)
{
    const struct fan_record *record = fan_index_record(index, id);
    const char *text;
    size_t text_bytes;
    uint64_t first, count;
    struct stat st;
    if (fan_index_name(index, record, &text, &text_bytes) == 0)
        touch(text, text_bytes);
    if (S_ISLNK(record->mode) && fan_index_target(index, record, &text, &text_bytes) == 0)
        touch(text, text_bytes);
    if (fan_index_children(index, id, &first, &count) == 0 && count > 0)
        sink += index->records[first].mode + index->records[first + count - 1].mode;
    sink += fan_index_inode(index, id);
    if (fan_index_stat(index, id, &st) == 0)
        sink += (uint64_t)st.st_size;
    use_path(index, id);
    use_content(index, record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    /* An allocation of the exact size, so that the sanitizer sees a read past the end. */
    void *copy = NULL;
    if (posix_memalign(&copy, 64, bytes > 0 ? bytes : 1) != 0)
        return 0;
    memcpy(copy, data, bytes);
    struct fan_index index;
    struct fan_fault fault;
    if (fan_index_attach(&index, copy, bytes, &fault) == 0) {
        for (uint64_t id = 0; id < index.record_count && id < RECORDS_MAX; id++)
            use_record(&index, id);
        fan_index_lookup(&index, "dir1/file9", 10);
        fan_index_lookup(&index, "no/such//file", 13);
        fan_index_lookup(&index, (const char *)copy, bytes < 300 ? bytes : 300);
    }
    free(copy);
    return 0;
}

size_t fan_fuzz_seed(unsigned number, uint8_t *buffer, size_t capacity)
{
    static const struct tree_shape shapes[] = {{0, 0, 1},  {0, 0, 2},  {0, 0},     {3, 12, 1},
                                               {3, 12, 2}, {3, 12, 3}, {16, 6, 2}, {1, 200, 3}};
    if (number >= sizeof(shapes) / sizeof(shapes[0]))
        return 0;
    return tree_fill(shapes[number], buffer, capacity);
}
