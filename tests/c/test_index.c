/* Look-ups of a valid index: every path is found, from many threads at once. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../../tools/fuzz/tree.h"
#include "check.h"

enum { THREADS = 4, CAPACITY = 1 << 20 };

static struct fan_index tree_index;

static void check_record(uint64_t id)
{
    char path[256];
    int64_t bytes = fan_index_path(&tree_index, id, path, sizeof(path));
    CHECK(bytes >= 0);
    CHECK(fan_index_lookup(&tree_index, path, (size_t)bytes) == (int64_t)id);

    uint64_t parent_hash, hash;
    struct fan_child child;
    const char *name;
    size_t name_bytes;
    const struct fan_record *record = fan_index_record(&tree_index, id);
    CHECK(fan_index_path_hash(&tree_index, id, &hash) == 0);
    if (id == 0)
        return;
    CHECK(fan_index_path_hash(&tree_index, record->parent, &parent_hash) == 0);
    CHECK(fan_index_name(&tree_index, record, &name, &name_bytes) == 0);
    CHECK(fan_index_child(&tree_index, record->parent, parent_hash, name, name_bytes, &child) == 0);
    CHECK(child.id == id && child.hash == hash && child.mode == record->mode);
}

static void *check_all(void *unused)
{
    (void)unused;
    for (uint64_t id = 0; id < tree_index.record_count; id++)
        check_record(id);
    return NULL;
}

static void check_missing(void)
{
    static const char *const paths[] = {"nothing", "dir1/nothing", "dir1/file1/x", "dir", "dir11"};
    for (unsigned i = 0; i < sizeof(paths) / sizeof(paths[0]); i++)
        CHECK(fan_index_lookup(&tree_index, paths[i], strlen(paths[i])) == -ENOENT);
}

static void check_small_buffer(void)
{
    char path[4];
    CHECK(fan_index_path(&tree_index, 9, path, sizeof(path)) == -ERANGE);
    CHECK(fan_index_path(&tree_index, 0, path, 0) == 0);
}

static void check_links(void)
{
    for (uint64_t i = 0; i < tree_index.link_count; i++) {
        struct fan_link link = tree_index.links[i];
        CHECK(fan_index_inode(&tree_index, link.record) == link.first + 2);
    }
}

/* The hash as docs/format.md has it, byte by byte. */
static uint64_t plain_hash(uint64_t hash, const unsigned char *name, size_t bytes)
{
    uint64_t h = hash ^ (bytes * FAN_PATH_HASH_A), word = 0;
    size_t at = 0;
    for (; at < bytes; at++) {
        word |= (uint64_t)name[at] << (8 * (at % 8));
        if (at % 8 == 7) {
            h = fan_hash_fold(h ^ word, FAN_PATH_HASH_B);
            word = 0;
        }
    }
    return fan_hash_fold(h ^ word, FAN_PATH_HASH_A);
}

/* Names of every length, each in memory of its own size: nothing beside it is read. */
static void check_hash(void)
{
    for (size_t bytes = 0; bytes < 300; bytes++) {
        unsigned char *name = malloc(bytes + (bytes == 0));
        for (size_t i = 0; i < bytes; i++)
            name[i] = (unsigned char)(i * 37 + bytes + 128);
        CHECK(fan_path_hash_step(bytes, name, bytes) == plain_hash(bytes, name, bytes));
        free(name);
    }
}

static void check_tree(struct tree_shape shape)
{
    uint8_t *buffer = aligned_alloc(64, CAPACITY);
    struct fan_fault fault;
    pthread_t threads[THREADS];
    size_t bytes = tree_fill(shape, buffer, CAPACITY);
    CHECK(bytes > 0);
    CHECK(fan_index_attach(&tree_index, buffer, bytes, &fault) == 0);
    CHECK(fan_index_attach(&tree_index, buffer, bytes - 1, &fault) == -EINVAL);
    CHECK(strcmp(fault.field, "header.file_bytes") == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, check_all, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    check_missing();
    check_small_buffer();
    check_links();
    free(buffer);
}

int main(void)
{
    check_hash();
    for (unsigned version = 1; version <= FAN_INDEX_VERSION; version++)
        check_tree((struct tree_shape){8, 500, version});
    printf("test_index: no fault\n");
    return 0;
}
