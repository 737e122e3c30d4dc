/*
 * A job whose one pack another node has, and scenarios: each is a process of its own, with a fake
 * daemon of its own. For test_remote.c and test_session.c.
 */
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "../../csrc/client/content/content_io.h"
#include "../../csrc/client/content/session.h"
#include "../../csrc/client/files/overlay.h"
#include "../../csrc/client/handoff/handoff.h"
#include "../../csrc/client/open/open.h"
#include "../../csrc/format/pack_format.h"
#include "../../tools/fuzz/jobdir.h"
#include "../../tools/fuzz/tree.h"
#include "fake_daemon.h"

enum { MIB = 1 << 20, CAPACITY = 1 << 18, LIMIT_S = 150 };
enum { LARGE = 4, EVEN = 8, TABLE = 9, DAMAGED = 11, LOST = 13, SMALL = 17 };
enum { CODED = 12, SPOILT = 18 }; /* compressed */
enum { LARGE_BYTES = 5 * MIB + 123, EVEN_BYTES = 3 * MIB };
enum { BLOCK = 65536, TABLE_BLOCKS = 3, CODED_BLOCKS = 70 };
enum { TABLE_BYTES = 2 * BLOCK + 10000, TABLE_HEAD = TABLE_BLOCKS * 8 };
enum { CODED_BYTES = (CODED_BLOCKS - 1) * BLOCK + 3000, CODED_HEAD = CODED_BLOCKS * 8 };
enum { SPOILT_BLOCK = 5 }; /* and the one that lies in two blocks of the cache */

/* Longer than a socket address holds. */
#define DIRECTORY                                                                                  \
    "test-remote-job-with-a-name-that-is-longer-than-the-address-of-a-socket-can-hold-which-is-"   \
    "not-much-more-than-a-hundred-bytes-in-all"

static const uint64_t files[] = {LARGE, EVEN, TABLE, CODED, 14, SMALL};
enum { FILES = sizeof(files) / sizeof(files[0]) };

static const struct fan_record *records;
static struct control *control;
static pid_t daemon_pid;

/* The stored bytes of CODED: its table, then the blocks. */
static union {
    uint64_t ends[CODED_BLOCKS];
    uint8_t bytes[3 * MIB];
} coded;

/* The thread sanitizer sees where liblz4 writes, and not that the memory has been unmapped and
 * mapped anew since another thread wrote there: the client makes these system calls itself. */
const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
    return "called_from_lib:liblz4\n";
}

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
        uint64_t end = (i + 1) * BLOCK;
        ends[i] = TABLE_HEAD + (end < TABLE_BYTES ? end : TABLE_BYTES);
    }
    memcpy(stored, ends, sizeof(ends));
    jobdir_fill(stored + TABLE_HEAD, TABLE, 0, TABLE_BYTES);
    memcpy(to, stored + offset, bytes);
}

/* What LZ4 writes of a length behind the 15 that its token holds. */
static uint8_t *put_length(uint8_t *to, size_t length)
{
    size_t rest = length - 15;
    for (; rest >= 255; rest -= 255)
        *to++ = 255;
    *to++ = (uint8_t)rest;
    return to;
}

/* Encodes [offset, offset + bytes) of CODED as LZ4 does. Its content repeats itself within a page:
 * one half comes as it is, the other, but for the block's last bytes, as a match. */
static uint8_t *encode(uint8_t *to, uint64_t offset, size_t bytes)
{
    enum { PAGE = 4096, HALF = PAGE / 2, PERIOD = 256, MATCH_MIN = 4, TAIL = 8 };
    for (size_t at = 0; at < bytes; at += PAGE) {
        size_t left = bytes - at, page = left < PAGE ? left : PAGE;
        *to++ = 0xFF;
        to = put_length(to, HALF);
        jobdir_fill(to, CODED, offset + at, HALF);
        to += HALF;
        *to++ = PERIOD & 0xFF;
        *to++ = PERIOD >> 8;
        to = put_length(to, page - HALF - (left <= PAGE ? TAIL : 0) - MATCH_MIN);
    }
    *to++ = TAIL << 4;
    jobdir_fill(to, CODED, offset + bytes - TAIL, TAIL);
    return to + TAIL;
}

static void encode_blocks(void)
{
    uint8_t *to = coded.bytes + CODED_HEAD;
    for (uint64_t i = 0; i < CODED_BLOCKS; i++) {
        uint64_t left = CODED_BYTES - i * BLOCK;
        to = encode(to, i * BLOCK, left < BLOCK ? left : BLOCK);
        coded.ends[i] = (uint64_t)(to - coded.bytes);
    }
}

static uint64_t coded_start(uint64_t block)
{
    return block > 0 ? coded.ends[block - 1] : CODED_HEAD;
}

/* The first block of CODED that lies in two blocks of the cache. */
static uint64_t spanning_block(void)
{
    uint64_t block = 0;
    while (coded_start(block) / MIB == (coded.ends[block] - 1) / MIB)
        block++;
    return block;
}

/* CODED, with blocks that no decoder takes. */
static void fill_spoilt(uint8_t *to, uint64_t offset, uint64_t bytes)
{
    const uint64_t blocks[] = {SPOILT_BLOCK, spanning_block()};
    memcpy(to, coded.bytes + offset, bytes);
    for (unsigned i = 0; i < 2; i++) {
        for (uint64_t at = coded_start(blocks[i]); at < coded.ends[blocks[i]]; at++) {
            if (at >= offset && at < offset + bytes)
                to[at - offset] = 0xFF;
        }
    }
}

static void fill(uint8_t *to, uint64_t id, uint64_t offset, uint64_t bytes)
{
    if (id == TABLE)
        fill_table(to, offset, bytes);
    else if (id == CODED)
        memcpy(to, coded.bytes + offset, bytes);
    else if (id == SPOILT)
        fill_spoilt(to, offset, bytes);
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

static inline bool wait_until(const atomic_uint *value, unsigned expected)
{
    for (int i = 0; i < 10000 && atomic_load(value) != expected; i++)
        usleep(1000);
    return atomic_load(value) == expected;
}

static uint64_t counted(size_t field)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < fan_lanes.lane_count; i++)
        sum +=
            __atomic_load_n((const uint64_t *)((const char *)&fan_lanes.lanes[i].counters + field),
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
    for (uint32_t i = 0; i < fan_lanes.lane_count; i++)
        memset(&fan_lanes.lanes[i].counters, 0, sizeof(fan_lanes.lanes[i].counters));
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

/* Into the shared copy, too: LARGE, EVEN and the small ones are there already. */
static void write_coded(void)
{
    int fd = open(DIRECTORY "/pack-00000.fsp", O_WRONLY | O_CLOEXEC);
    uint64_t bytes = records[CODED].stored_size;
    CHECK(fd >= 0);
    CHECK(pwrite(fd, coded.bytes, bytes, (off_t)records[CODED].offset) == (ssize_t)bytes);
    close(fd);
}

static void make_job(void)
{
    static uint8_t index[CAPACITY] __attribute__((aligned(64)));
    size_t bytes = tree_fill((struct tree_shape){2, 12}, index, CAPACITY);
    struct fan_index_header *header = (void *)index;
    struct fan_record *all = (void *)(index + header->sections[FAN_SECTION_RECORDS].offset);
    CHECK(bytes > 0);
    header->block_bytes = BLOCK;
    encode_blocks();
    place_file(all, LARGE, LARGE_BYTES, LARGE_BYTES);
    place_file(all, EVEN, EVEN_BYTES, EVEN_BYTES);
    place_file(all, TABLE, TABLE_BYTES, TABLE_HEAD + TABLE_BYTES);
    place_file(all, CODED, CODED_BYTES, coded.ends[CODED_BLOCKS - 1]);
    place_file(all, SPOILT, CODED_BYTES, coded.ends[CODED_BLOCKS - 1]);
    CHECK(all[TABLE].codec == FAN_CODEC_LZ4);
    CHECK(all[CODED].codec == FAN_CODEC_LZ4 && all[SPOILT].codec == FAN_CODEC_LZ4);
    records = all;
    jobdir_attach(DIRECTORY, index, bytes, TREE_PACK_BYTES);
    write_coded();
}

static void begin(void)
{
    signal(SIGPIPE, SIG_IGN);
    make_job();
    control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                   0);
    CHECK(control != MAP_FAILED);
}

static void *read_until_ended(void *record)
{
    while (fan_session() != NULL)
        check_whole((uint64_t)(uintptr_t)record);
    return NULL;
}

/* Two threads read a file until the daemon takes this process for dead. */
__attribute__((unused)) static void check_forgotten(uint64_t record)
{
    pthread_t threads[2];
    CHECK(fan_session() != NULL);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, read_until_ended, (void *)(uintptr_t)record) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(COUNTED(shared_reads) > 0);
}
