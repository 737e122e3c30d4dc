/*
 * A job whose one pack another node has, and scenarios: each is a process of its own, with a fake
 * daemon of its own. For test_remote.c and test_session.c.
 */
#ifndef FAN_TESTS_REMOTE_JOB_H
#define FAN_TESTS_REMOTE_JOB_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "../../csrc/client/content/content_io.h"
#include "../../csrc/client/content/session.h"
#include "../../csrc/client/files/overlay.h"
#include "../../csrc/client/handoff/process.h"
#include "../../csrc/client/open/open.h"
#include "../../csrc/format/pack_format.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "fake_daemon.h"

enum { MIB = 1 << 20, CAPACITY = 1 << 18, LIMIT_S = 150 };
enum { LARGE = 4, EVEN = 8, TABLE = 9, DAMAGED = 11, LOST = 13, SMALL = 17 };
enum { LARGE_BYTES = 5 * MIB + 123, EVEN_BYTES = 3 * MIB };
enum { TABLE_BYTES = 10000, TABLE_BLOCK = 4096, TABLE_BLOCKS = 3, TABLE_HEAD = TABLE_BLOCKS * 8 };

/* Longer than a socket address holds. */
#define DIRECTORY                                                                                  \
    "test-remote-job-with-a-name-that-is-longer-than-the-address-of-a-socket-can-hold-which-is-"   \
    "not-much-more-than-a-hundred-bytes-in-all"

static const uint64_t files[] = {LARGE, EVEN, TABLE, 14, SMALL};
enum { FILES = sizeof(files) / sizeof(files[0]) };

static const struct fan_record *records;
static struct control *control;
static pid_t daemon_pid;

static uint64_t stored_bytes(uint64_t id)
{
    return records[id].stored_size;
}

/* A file of which no block could be compressed: its table, then the blocks as they are. */
static void fill_table(uint8_t *to, uint64_t offset, uint64_t bytes)
{
    static uint8_t stored[TABLE_HEAD + TABLE_BYTES];
    uint64_t ends[TABLE_BLOCKS];
    for (uint64_t i = 0; i < TABLE_BLOCKS; i++) {
        uint64_t end = (i + 1) * TABLE_BLOCK;
        ends[i] = TABLE_HEAD + (end < TABLE_BYTES ? end : TABLE_BYTES);
    }
    memcpy(stored, ends, sizeof(ends));
    jobdir_fill(stored + TABLE_HEAD, TABLE, 0, TABLE_BYTES);
    memcpy(to, stored + offset, bytes);
}

static void fill(uint8_t *to, uint64_t id, uint64_t offset, uint64_t bytes)
{
    if (id == TABLE)
        fill_table(to, offset, bytes);
    else
        jobdir_fill(to, id, offset, bytes);
}

static int open_record(uint64_t id)
{
    struct fan_target target;
    char path[512] = JOBDIR_PREFIX "/";
    size_t start = strlen(path);
    const struct fan_index *index = &fan_view_dataset(&fan_job.views[0])->index;
    int64_t bytes = fan_index_path(index, id, path + start, sizeof(path) - start - 1);
    CHECK(bytes >= 0);
    path[start + (size_t)bytes] = '\0';
    CHECK(fan_locate(AT_FDCWD, path, FAN_NOFOLLOW, &target));
    return fan_open(&target, O_RDONLY | O_CLOEXEC, 0);
}

static void close_record(int fd)
{
    fan_file_remove(fd);
    close(fd);
}

static void set_place(uint32_t state)
{
    __atomic_store_n(&fan_job.views[0].places[0].state, state, __ATOMIC_RELEASE);
}

/* Reads a range of an open file and compares it. */
static void check_range(int fd, uint64_t id, uint64_t offset, uint64_t bytes)
{
    uint8_t *got = malloc(bytes), *expected = malloc(bytes);
    uint64_t size = records[id].logical_size, inside = size - offset;
    if (inside > bytes)
        inside = bytes;
    CHECK(fan_content_pread(fan_file_get(fd), got, bytes, (int64_t)offset) == (ssize_t)inside);
    jobdir_fill(expected, id, offset, inside);
    CHECK(memcmp(got, expected, inside) == 0);
    free(got);
    free(expected);
}

static void check_whole(uint64_t id)
{
    int fd = open_record(id);
    CHECK(fd >= 0);
    check_range(fd, id, 0, records[id].logical_size);
    close_record(fd);
}

static bool wait_until(const atomic_uint *value, unsigned expected)
{
    for (int i = 0; i < 10000 && atomic_load(value) != expected; i++)
        usleep(1000);
    return atomic_load(value) == expected;
}

static uint64_t counted(size_t field)
{
    uint64_t sum = 0;
    for (int i = 0; i < FAN_COUNTER_SHARDS; i++)
        sum += __atomic_load_n((const uint64_t *)((const char *)&fan_job.counters[i] + field),
                               __ATOMIC_RELAXED);
    return sum;
}

/* One of the counters, of all threads together. */
#define COUNTED(field) counted(offsetof(struct fan_counters, field))

/* How many reads of the shared file system `id` costs. */
static uint64_t shared_reads_for(uint64_t id)
{
    uint64_t before = COUNTED(shared_reads);
    check_whole(id);
    return COUNTED(shared_reads) - before;
}

static inline void check_no_pin_left(void)
{
    const struct fan_cache *cache = fan_session_now();
    CHECK(cache != NULL && atomic_load(&cache->abandoned) == 0);
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++)
        CHECK(fan_pin_state(&cache->session->pins[i]) == FAN_PIN_FREE);
}

/* Reads everything in turn, ranges of all sizes. */
static void *read_about(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    for (int round = 0; round < 60; round++) {
        uint64_t id = files[(unsigned)rand_r(&seed) % FILES], size = records[id].logical_size;
        uint64_t most = round % 10 == 0 ? size : round % 2 == 0 ? 300000 : 5000;
        int fd = open_record(id);
        CHECK(fd >= 0);
        check_range(fd, id, (uint64_t)rand_r(&seed) % size, 1 + (uint64_t)rand_r(&seed) % most);
        close_record(fd);
    }
    return NULL;
}

static inline void run_readers(unsigned count)
{
    pthread_t threads[16];
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, read_about, (void *)(uintptr_t)(i + 1)) == 0);
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* fork(2) as the preload wraps it. */
static pid_t fork_client(void)
{
    fan_file_before_fork();
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        fan_process_after_fork_child();
    return pid;
}

static inline void check_exit(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t start_daemon(void)
{
    int listener = fake_listen(DIRECTORY);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        fake_run(control, listener);
    close(listener);
    return pid;
}

static void run(const char *name, void (*scenario)(void), struct control how)
{
    int status;
    *control = how;
    control->stored_bytes = stored_bytes;
    control->fill = fill;
    memset(fan_job.counters, 0, FAN_COUNTER_SHARDS * sizeof(*fan_job.counters));
    set_place(FAN_PLACE_REMOTE);
    daemon_pid = start_daemon();
    pid_t pid = fork_client();
    if (pid == 0) {
        alarm(LIMIT_S);
        scenario();
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    kill(daemon_pid, SIGKILL);
    CHECK(waitpid(daemon_pid, NULL, 0) == daemon_pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fprintf(stderr, "scenario %s failed (%d)\n", name, status);
    CHECK(status == 0);
}

static void place_file(struct fan_record *all, uint64_t id, uint64_t logical, uint64_t stored)
{
    all[id].logical_size = logical;
    all[id].stored_size = stored;
    all[id].offset = JOBDIR_LARGE_OFFSET + id * 8 * MIB;
}

static void make_job(void)
{
    static uint8_t index[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){2, 12}, index, CAPACITY);
    const struct fan_index_header *header = (const void *)index;
    struct fan_record *all = (void *)(index + header->sections[FAN_SECTION_RECORDS].offset);
    CHECK(bytes > 0 && header->block_bytes == TABLE_BLOCK);
    place_file(all, LARGE, LARGE_BYTES, LARGE_BYTES);
    place_file(all, EVEN, EVEN_BYTES, EVEN_BYTES);
    place_file(all, TABLE, TABLE_BYTES, TABLE_HEAD + TABLE_BYTES);
    CHECK(all[TABLE].codec != FAN_CODEC_STORE);
    records = all;
    jobdir_attach(DIRECTORY, index, bytes, TREE_PACK_BYTES);
}

static void begin(void)
{
    signal(SIGPIPE, SIG_IGN);
    make_job();
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    CHECK(control != MAP_FAILED);
}

#endif
