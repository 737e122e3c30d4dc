/* The block cache of node daemons in one process: policies, pins, room, clients that die or lie. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../../csrc/format/shm_format.h"
#include "../../csrc/node/cache/granules.h"
#include "../../csrc/node/state/state.h"
#include "../../csrc/node/storage/keep.h"
#include "../../csrc/node/storage/marks.h"
#include "check.h"
#include "node_client.h"
#include "node_readers.h"
#include "node_world.h"

enum { LEAST_ON_TOP_BYTES = 5 << 20 };     /* of a cache, beside its content */
enum { LONG_MS = 30000, SHORT_MS = 2000 }; /* the short one to pass, though not for a fetch */

/* ---- granules ---- */

/* Runs never overlap, and when all are given back the whole is one again. */
static void test_granules(void)
{
    enum { COUNT = 3000, RUNS = 400 };
    static uint8_t owner[COUNT];
    struct run {
        uint32_t start, count;
    } runs[RUNS] = {{0}};
    struct fan_granules granules;
    uint32_t seed = 1;
    CHECK(fan_granules_init(&granules, COUNT, COUNT) == 0);
    for (int round = 0; round < 40000; round++) {
        seed = seed * 1664525 + 1013904223;
        struct run *run = &runs[(seed >> 8) % RUNS];
        uint32_t wanted = 1 + (seed >> 20) % ((seed & 64) != 0 ? FAN_GRANULES_RUN_MAX : 8);
        if (run->count > 0) {
            memset(owner + run->start, 0, run->count);
            fan_granules_give(&granules, run->start, run->count);
            run->count = 0;
            continue;
        }
        int64_t start = fan_granules_take(&granules, wanted);
        CHECK(start == -ENOSPC || (start >= 0 && start + wanted <= COUNT));
        for (uint32_t i = 0; start >= 0 && i < wanted; i++)
            CHECK(owner[start + i]++ == 0);
        if (start >= 0)
            *run = (struct run){(uint32_t)start, wanted};
    }
    for (int i = 0; i < RUNS; i++)
        fan_granules_give(&granules, runs[i].start, runs[i].count);
    CHECK(granules.free_count == COUNT);
    for (int i = 0; i < COUNT / FAN_GRANULES_RUN_MAX; i++)
        CHECK(fan_granules_take(&granules, FAN_GRANULES_RUN_MAX) >= 0);
    CHECK(fan_granules_take(&granules, FAN_GRANULES_RUN_MAX) == -ENOSPC);
    CHECK(granules.free_count == COUNT % FAN_GRANULES_RUN_MAX);
    fan_granules_fini(&granules);
}

/* ---- the segment ---- */

static uint64_t taken_bytes(uint64_t content_bytes, uint64_t most_bytes, uint32_t sessions)
{
    struct fan_segment segment;
    struct stat st;
    CHECK(fan_segment_init(&segment, content_bytes, most_bytes, FAN_POLICY_BELADY) == 0);
    for (uint32_t number = 0; number < sessions; number++)
        CHECK(fan_segment_take_session(&segment, number) == 0);
    CHECK(fstat(segment.fd, &st) == 0);
    fan_segment_fini(&segment);
    return (uint64_t)st.st_blocks * 512;
}

/* Neither guests that may come nor programs that may come take memory before they do. */
static void test_empty_segment(void)
{
    uint64_t content = 256 << 20, alone = taken_bytes(content, content, 0);
    CHECK(taken_bytes(content, 4 * content, 0) - alone < content / 100);
    CHECK(alone < content / 10);
    CHECK(taken_bytes(content, content, FAN_SESSIONS_MAX) - alone > 32 << 20);
}

/* ---- reading everything ---- */

static void check_bound(const struct world *world, uint32_t rank)
{
    struct fan_node_stats stats = world_stats(world, rank);
    struct stat st;
    int fd = fan_node_cache_fd(world->nodes[rank]);
    uint64_t most = world->shape.cache_bytes / 3 * 4 + LEAST_ON_TOP_BYTES;
    CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 <= most);
    CHECK(stats.cache_bytes <= most);
    CHECK(stats.peak_resident_bytes > 0 && stats.peak_resident_bytes < stats.cache_bytes);
    CHECK(ftruncate(fd, 4096) == -1 && errno == EPERM);
}

/* Nothing is left in the cache of rank 0, in no bucket either. */
static void check_empty(struct world *world)
{
    struct node_client client;
    EVENTUALLY(world_stats(world, 0).resident_bytes == 0);
    client_open(&client, world->nodes[0]);
    const struct fan_bucket *buckets = (void *)(client.base + client.header->buckets_offset);
    for (uint32_t i = 0; i < client.header->bucket_count; i++) {
        for (unsigned way = 0; way < FAN_CACHE_WAYS; way++)
            CHECK(__atomic_load_n(&buckets[i].entries[way], __ATOMIC_SEQ_CST) == 0);
    }
    client_close(&client);
}

/* Every policy, a cache that holds all and one that holds a few blocks. */
static void test_policy(enum fan_policy policy, uint64_t cache_bytes)
{
    struct world world;
    world_open(&world, (struct world_shape){3, 1, cache_bytes, LONG_MS, policy}, 0);
    read_on(&world, 7, 1);
    for (uint32_t rank = 0; rank < 3; rank++)
        check_bound(&world, rank);
    uint64_t before = world_stats(&world, 0).fetches;
    read_on(&world, 1, 1);
    uint64_t again = world_stats(&world, 0).fetches - before;
    bool tiny = cache_bytes == WORLD_TINY_BYTES;
    if (policy == FAN_POLICY_CLOSE)
        check_empty(&world);
    else if (!tiny)
        CHECK(again == 0 && world_stats(&world, 0).evicted == 0);
    if (tiny)
        CHECK(world_stats(&world, 0).evicted > 0 && again > 0);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.failures == 0 && stats.timeouts == 0 && stats.retries == 0);
    CHECK(stats.fetches == 0 || stats.served > 0);
    world_close(&world);
}

/* What was cached first stays, however much comes after. */
static void test_minio_keeps(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_MINIO}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t first = world_remote_file(&world);
    CHECK(client_read(&client, 0, first) == 0);
    read_on(&world, 1, 2);
    uint64_t before = world_stats(&world, 0).fetches;
    CHECK(client_read(&client, 0, first) == 0);
    CHECK(world_stats(&world, 0).fetches == before);
    client_close(&client);
    world_close(&world);
}

/* What a pin holds stays as it is, whatever room is needed. */
static void test_pinned_stays(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, policy}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t record = world_remote_file(&world), file = fan_cache_file(0, record);
    CHECK(client_pin(&client, 9, file, 0) == 0);
    client_compare(&client, 9, record, 0);
    read_on(&world, 1, 2);
    CHECK(world_stats(&world, 0).evicted > 0);
    client_compare(&client, 9, record, 0);
    client_unpin(&client, 9);
    client_close(&client);
    world_close(&world);
}

/* A file that another process has open keeps its blocks; they go when that closes it. */
static void test_open_elsewhere(void)
{
    struct world world;
    struct node_client client, other;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_CLOSE}, 0);
    client_open(&client, world.nodes[0]);
    client_open(&other, world.nodes[0]);
    uint64_t record = world_remote_file(&world), next = record + 1;
    while (world_has(&world, 0, world_file_pack(next)))
        next++;
    unsigned place = client_note(&other, fan_cache_file(0, record));
    CHECK(client_read(&client, 0, record) == 0 && client_read(&client, 0, next) == 0);
    uint64_t kept = (world_file_bytes(record) + FAN_CACHE_GRANULE_BYTES - 1) /
                    FAN_CACHE_GRANULE_BYTES * FAN_CACHE_GRANULE_BYTES;
    EVENTUALLY(world_stats(&world, 0).resident_bytes == kept);
    CHECK(client_read(&client, 0, record) == 0);
    EVENTUALLY(client.session->closed[0] == 0);
    CHECK(world_stats(&world, 0).fetches == 2);
    client_drop(&other, place);
    EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    client_close(&client);
    client_close(&other);
    world_close(&world);
}

/* A block that is used again and again outlives all that are used once. */
static void test_lru_keeps(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t kept = world_remote_file(&world), blocks = 1;
    CHECK(client_read(&client, 0, kept) == 0);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (record == kept || world_has(&world, 0, world_file_pack(record)))
            continue;
        CHECK(client_read(&client, 0, record) == 0 && client_read(&client, 0, kept) == 0);
        blocks += (world_file_bytes(record) + FAN_CACHE_BLOCK_BYTES - 1) / FAN_CACHE_BLOCK_BYTES;
    }
    CHECK(world_stats(&world, 0).fetches == blocks && world_stats(&world, 0).evicted > 0);
    client_close(&client);
    world_close(&world);
}

/* Wants a block of every remote file of some size; how many. None is unpinned. */
static unsigned want_much(struct world *world, struct node_client *client)
{
    unsigned wants = 0;
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        uint64_t bytes = world_file_bytes(record);
        if (world_has(world, 0, world_file_pack(record)) || bytes < 300000)
            continue;
        for (uint64_t block = 0; block * FAN_CACHE_BLOCK_BYTES < bytes; block++)
            client_want(client, wants++, fan_cache_file(0, record), block);
    }
    CHECK(wants <= FAN_SESSION_PINS);
    return wants;
}

static unsigned pins_in(struct node_client *client, uint32_t state)
{
    unsigned count = 0;
    for (unsigned pin = 0; pin < FAN_SESSION_PINS; pin++)
        count += __atomic_load_n(&client->session->pins[pin].state, __ATOMIC_SEQ_CST) == state;
    return count;
}

/* All of the cache is pinned: who wants more waits for room; for so long and no longer. */
static void test_no_room(uint64_t deadline_ms)
{
    struct world world;
    struct node_client client;
    world_open(&world,
               (struct world_shape){4, 1, WORLD_TINY_BYTES, deadline_ms, FAN_POLICY_CLOSE}, 0);
    client_open(&client, world.nodes[0]);
    unsigned wants = want_much(&world, &client), held = 0;
    if (deadline_ms == SHORT_MS) {
        EVENTUALLY(pins_in(&client, FAN_PIN_WANTED) == 0);
        CHECK(pins_in(&client, FAN_PIN_HELD) >= 8);
        CHECK(pins_in(&client, FAN_PIN_HELD) + pins_in(&client, FAN_PIN_FAILED) == wants);
        CHECK(pins_in(&client, FAN_PIN_FAILED) > 0 && world_stats(&world, 0).timeouts == 0);
        for (unsigned pin = 0; pin < wants; pin++)
            CHECK(client_wait(&client, pin) == 0 || client_wait(&client, pin) == -EREMOTEIO);
    } else {
        EVENTUALLY(pins_in(&client, FAN_PIN_HELD) >= 8 && world_stats(&world, 0).outstanding == 0);
        CHECK(pins_in(&client, FAN_PIN_WANTED) > 0);
        for (unsigned pin = 0; pin < wants; pin++) {
            CHECK(client_wait(&client, pin) == 0);
            held++;
            client_unpin(&client, pin);
        }
        CHECK(held == wants && world_stats(&world, 0).failures == 0);
    }
    client_close(&client);
    world_close(&world);
}

/* Many that want one block cost one request. */
static void test_coalesce(void)
{
    enum { WANTS = 40 };
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    uint64_t file = fan_cache_file(0, world_remote_file(&world));
    client_open(&client, world.nodes[0]);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    for (unsigned pin = 0; pin < WANTS; pin++)
        client_want(&client, pin, file, 0);
    EVENTUALLY(world_stats(&world, 0).coalesced == WANTS - 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    for (unsigned pin = 0; pin < WANTS; pin++)
        CHECK(client_wait(&client, pin) == 0);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.fetches == 1 && stats.coalesced == WANTS - 1);
    EVENTUALLY(world_stats(&world, 1).served == 1);
    uint64_t counted = 0;
    for (unsigned bin = 0; bin < FAN_LATENCY_BINS; bin++)
        counted += stats.latency_bins[bin];
    CHECK(counted == WANTS);
    client_close(&client);
    world_close(&world);
}

/* ---- clients that die or lie ---- */

static void test_dead_client(void)
{
    struct world world;
    struct node_client client, other;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_CLOSE}, 0);
    uint64_t record = world_remote_file(&world), file = fan_cache_file(0, record);
    client_open(&other, world.nodes[0]);
    client_open(&client, world.nodes[0]);
    CHECK(client_pin(&client, 0, file, 0) == 0); /* held, and nobody has it open */
    CHECK(client_read(&other, 0, record) == 0);
    CHECK(world_stats(&world, 0).fetches == 1);
    EVENTUALLY(world_stats(&world, 0).resident_bytes > 0);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    client_want(&client, 1, file, 7); /* no such block */
    CHECK(client_wait(&client, 1) == -EIO);
    uint64_t unread = record + 1;
    while (world_has(&world, 0, world_file_pack(unread)))
        unread++;
    client_want(&client, 2, fan_cache_file(0, unread), 0);
    EVENTUALLY(world_stats(&world, 0).outstanding == 1);
    uint32_t number = client.number;
    client_close(&client);
    client_open(&client, world.nodes[0]);
    CHECK(client.number == number && client.session->pins[2].state == FAN_PIN_FREE);
    client_want(&client, 2, file, 0); /* with the pin of the want that is under way */
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    CHECK(client_wait(&client, 2) == 0);
    client_unpin(&client, 2);
    CHECK(client_read(&client, 2, record) == 0); /* its close makes the daemon look */
    EVENTUALLY(world_stats(&world, 0).outstanding == 0);
    EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    CHECK(client.session->pins[2].state == FAN_PIN_FREE);
    client_close(&client);
    client_close(&other);
    EVENTUALLY(world_stats(&world, 0).sessions == 0);
    world_close(&world);
}

static void test_hostile_client(void)
{
    struct world world;
    struct node_client client, other;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    const uint64_t wants[][2] = {
        {fan_cache_file(200, 1), 0},          {fan_cache_file(1, 1), 0},
        {fan_cache_file(0, 0), 0},            {fan_cache_file(0, WORLD_FILES + 1), 0},
        {fan_cache_file(0, UINT64_MAX), 0},   {0, 0},
        {UINT64_MAX, UINT64_MAX},             {fan_cache_file(0, world_remote_file(&world)), 1},
        {fan_cache_file(0, world_remote_file(&world)), UINT64_MAX},
    };
    for (unsigned i = 0; i < sizeof(wants) / sizeof(wants[0]); i++) {
        client_want(&client, i, wants[i][0], wants[i][1]);
        CHECK(client_wait(&client, i) == -EIO);
    }
    CHECK(world_stats(&world, 0).fetches == 0);
    memset(client.base + 4096, 0xA5, (size_t)(client.header->data_offset - 4096));
    for (unsigned word = 0; word < 16; word++)
        __atomic_store_n(&client.header->wanted_sessions[word], UINT64_MAX, __ATOMIC_SEQ_CST);
    client_close(&client);
    memset(client.base = mmap(NULL, client.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                              fan_node_cache_fd(world.nodes[0]), 0),
           0, 0);
    client.header = (struct fan_cache_header *)(void *)client.base; /* not where it was before */
    memset(client.base + client.header->buckets_offset, 0,
           (size_t)(client.header->data_offset - client.header->buckets_offset));
    client_open(&other, world.nodes[0]);
    CHECK(client_read(&other, 0, world_remote_file(&world)) == 0);
    client_close(&other);
    munmap(client.base, client.bytes);
    world_close(&world);
}

/* A record of a whole pack that an earlier job left: a thread that would check it finds that
 * another has done so. */
static void test_checked_meanwhile(void)
{
    struct world world;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_CLOSE}, 0);
    for (uint64_t id = 1; id <= WORLD_FILES; id++) {
        struct fan_mounts *mounts = &world.nodes[0]->mounts;
        struct fan_fetch_request request = fan_record_request(&mounts->mounts[0], 0, id);
        char *stored = "";
        if (!world_has(&world, 0, request.pack))
            continue;
        CHECK(!fan_mount_is_unchecked(&mounts->mounts[0], id));
        CHECK(fan_keep_record(mounts, &request, &stored) == 0 && stored == NULL);
    }
    world_close(&world);
}

int main(void)
{
    test_granules();
    test_empty_segment();
    for (int policy = FAN_POLICY_CLOSE; policy < FAN_POLICY_COUNT; policy++) {
        test_policy((enum fan_policy)policy, WORLD_LARGE_BYTES);
        test_policy((enum fan_policy)policy, WORLD_TINY_BYTES);
        test_pinned_stays((enum fan_policy)policy);
    }
    test_minio_keeps();
    test_open_elsewhere();
    test_lru_keeps();
    test_no_room(LONG_MS);
    test_no_room(SHORT_MS);
    test_coalesce();
    test_dead_client();
    test_hostile_client();
    test_checked_meanwhile();
    printf("test_node: no fault\n");
    return 0;
}
