/*
 * The client code without the preload: content of every file, shared offsets, and many threads
 * that open, read, duplicate and close at once.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../csrc/client/content/content_io.h"
#include "../../csrc/client/content/decode.h"
#include "../../csrc/client/machine/spelling.h"
#include "../../csrc/client/open/open.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "check.h"

enum { THREADS = 4, CAPACITY = 1 << 18, BYTES = 8192 };

static const struct fan_index *tree_index;

/* A descriptor of record `id` by its path, or -errno. */
static int open_record(uint64_t id)
{
    struct fan_target target;
    char path[512] = JOBDIR_PREFIX "/";
    size_t start = strlen(path);
    int64_t bytes = fan_index_path(tree_index, id, path + start, sizeof(path) - start - 1);
    CHECK(bytes >= 0);
    path[start + (size_t)bytes] = '\0';
    CHECK(fan_locate(AT_FDCWD, path, FAN_NOFOLLOW, &target));
    CHECK(target.where == FAN_INPUT && target.id == id);
    return fan_open(&target, O_RDONLY | O_CLOEXEC, 0);
}

static void close_record(int fd)
{
    fan_file_remove(fd);
    close(fd);
}

static int is_stored(uint64_t id)
{
    const struct fan_record *record = fan_index_record(tree_index, id);
    return S_ISREG(record->mode) && record->codec == 0 && record->logical_size <= BYTES;
}

static void check_bytes(const uint8_t *data, ssize_t bytes, uint64_t id, uint64_t from)
{
    for (ssize_t i = 0; i < bytes; i++)
        CHECK(data[i] == jobdir_byte(id, from + (uint64_t)i));
}

static void check_content(uint64_t id)
{
    uint8_t data[BYTES + 1];
    int64_t size = (int64_t)tree_index->records[id].logical_size;
    int fd = open_record(id);
    CHECK(fd >= 0);
    struct fan_file *file = fan_file_get(fd);
    CHECK(fan_content_read(file, data, sizeof(data)) == size);
    check_bytes(data, size, id, 0);
    CHECK(fan_content_read(file, data, sizeof(data)) == 0);
    CHECK(fan_content_pread(file, data, 50, 20) == (size > 70 ? 50 : size > 20 ? size - 20 : 0));
    check_bytes(data, size > 70 ? 50 : 0, id, 20);
    close_record(fd);
}

/* Two descriptors of one open file share its offset; both must go before it does. */
static void check_duplicate(uint64_t id)
{
    uint8_t data[10];
    int fd = open_record(id);
    int other = dup(fd);
    CHECK(fd >= 0 && other >= 0);
    CHECK(fan_file_share(other, fan_file_get(fd)) == 0);
    CHECK(fan_content_read(fan_file_get(fd), data, 10) == 10);
    close_record(fd);
    CHECK(fan_content_read(fan_file_get(other), data, 10) == 10);
    check_bytes(data, 10, id, 10);
    close_record(other);
}

static void check_all(void)
{
    for (uint64_t id = 1; id < tree_index->record_count; id++) {
        if (!is_stored(id))
            continue;
        check_content(id);
        if (tree_index->records[id].logical_size >= 20)
            check_duplicate(id);
    }
}

static void *run_thread(void *unused)
{
    (void)unused;
    for (int round = 0; round < 20; round++)
        check_all();
    return NULL;
}

/* Compressed files of the tree hold no valid blocks: EIO, whatever is asked. */
static void check_damaged(void)
{
    char data[100];
    for (uint64_t id = 1; id < tree_index->record_count; id++) {
        const struct fan_record *record = fan_index_record(tree_index, id);
        if (!S_ISREG(record->mode) || record->codec == 0)
            continue;
        int fd = open_record(id);
        CHECK(fd == -EIO || fd >= 0);
        if (fd < 0)
            continue;
        CHECK(fan_content_read(fan_file_get(fd), data, sizeof(data)) == -EIO);
        struct fan_record nothing = *record; /* and whether its pack is mapped or not */
        nothing.stored_size = 0;
        fan_file_get(fd)->record = &nothing;
        fan_file_get(fd)->data = NULL;
        CHECK(fan_content_pread(fan_file_get(fd), data, sizeof(data), 0) == -EIO);
        close_record(fd);
    }
}

/* A block that is decoded for a file after it was closed is nobody else's. */
static void check_late_reader(void)
{
    uint8_t data[10];
    uint64_t before = 0;
    for (uint64_t id = 1; id < tree_index->record_count; id++) {
        uint64_t size = tree_index->records[id].logical_size;
        if (!is_stored(id) || size < 20 || size > tree_index->header->block_bytes)
            continue;
        int fd = open_record(before != 0 ? before : id);
        CHECK(fd >= 0);
        struct fan_file *file = fan_file_get(fd);
        unsigned generation = atomic_load(&file->generation);
        close_record(fd);
        CHECK(fan_decode_read(file, generation, (char *)data, 0, sizeof(data)) == sizeof(data));
        CHECK((fd = open_record(id)) >= 0 && fan_file_get(fd) == file);
        generation = atomic_load(&file->generation);
        CHECK(fan_decode_read(file, generation, (char *)data, 0, sizeof(data)) == sizeof(data));
        check_bytes(data, sizeof(data), id, 0);
        close_record(fd);
        before = id;
    }
    CHECK(before != 0);
}

static void check_missing(void)
{
    struct fan_target target;
    CHECK(fan_locate(AT_FDCWD, JOBDIR_PREFIX "/dir1/nothing", 0, &target));
    CHECK(target.where == FAN_MISSING && target.error == ENOENT);
    CHECK(fan_locate(AT_FDCWD, JOBDIR_PREFIX "/nothing/x", 0, &target));
    CHECK(target.where == FAN_MISSING && !target.creatable);
    CHECK(!fan_locate(AT_FDCWD, JOBDIR_PREFIX "x/dir1", 0, &target));
}

/* Paths of every length with one odd part, or none, in memory of their own size. */
static void check_odd_parts(void)
{
    for (size_t bytes = 2; bytes < 40; bytes++) {
        char *path = malloc(bytes + 1);
        memset(path, 'x', bytes);
        path[bytes] = '\0';
        CHECK(!fan_has_odd_part(path, bytes));
        for (size_t at = 0; at < bytes; at++) {
            path[at] = '/';
            CHECK(!fan_has_odd_part(path, bytes));
            char next = path[at + 1];
            if (at + 1 < bytes) {
                path[at + 1] = '.';
                CHECK(fan_has_odd_part(path, bytes));
                path[at + 1] = '/';
                CHECK(fan_has_odd_part(path, bytes));
            }
            path[at + 1] = next;
            path[at] = 'x';
        }
        free(path);
    }
}

int main(void)
{
    static uint8_t buffer[CAPACITY] __attribute__((aligned(64)));
    pthread_t threads[THREADS];
    size_t bytes = tree_fill((struct tree_shape){4, 12}, buffer, CAPACITY);
    CHECK(bytes > 0);
    jobdir_attach("test-client-job", buffer, bytes, TREE_PACK_BYTES);
    CHECK(fan_view_dataset(&fan_job.views[0]) != NULL);
    tree_index = &fan_view_dataset(&fan_job.views[0])->index;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, run_thread, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    check_damaged();
    check_late_reader();
    check_missing();
    check_odd_parts();
    printf("test_client: no fault\n");
    return 0;
}
