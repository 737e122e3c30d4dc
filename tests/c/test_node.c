/* Several node daemons' cores in one process, joined by a loopback whose faults the test chooses. */
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
#include "../../csrc/node/granules.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { THREADS = 2, LONG_MS = 30000, SHORT_MS = 150, STEPS_MAX = 30000 };

static void pause_ms(unsigned ms)
{
    const struct timespec pause = {.tv_nsec = ms * 1000000L};
    nanosleep(&pause, NULL);
}

/* Waits until a condition holds; fails if it never does. */
#define EVENTUALLY(condition)                                                                      \
    do {                                                                                           \
        for (int steps = 0; !(condition); steps++) {                                               \
            CHECK(steps < STEPS_MAX);                                                              \
            pause_ms(1);                                                                           \
        }                                                                                          \
    } while (0)

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
    CHECK(fan_granules_init(&granules, COUNT) == 0);
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

/* ---- reading everything ---- */

struct reader {
    pthread_t thread;
    struct world *world;
    struct node_client *client;
    uint32_t rank;
    unsigned pin;
    unsigned rounds;
};

/* Reads every file whose pack this rank does not have, each reader in another order. */
static void *read_all(void *argument)
{
    struct reader *reader = argument;
    for (uint64_t i = 0; i < WORLD_FILES * reader->rounds; i++) {
        uint64_t record = 1 + (i * 5 + reader->pin * 11 + reader->rank) % WORLD_FILES;
        if (!world_has(reader->world, reader->rank, world_file_pack(record)))
            CHECK(client_read(reader->client, reader->pin, record) == 0);
    }
    return NULL;
}

/* On each rank in `ranks` (a bit each), a client of THREADS threads, and another one. */
static void read_on(struct world *world, unsigned ranks, unsigned rounds)
{
    struct node_client clients[LOOPBACK_RANKS][2];
    struct reader readers[LOOPBACK_RANKS][THREADS + 1];
    for (uint32_t rank = 0; rank < world->shape.ranks; rank++) {
        if ((ranks >> rank & 1) == 0)
            continue;
        client_open(&clients[rank][0], world->nodes[rank]);
        client_open(&clients[rank][1], world->nodes[rank]);
        for (unsigned i = 0; i <= THREADS; i++) {
            struct reader *reader = &readers[rank][i];
            *reader = (struct reader){.world = world, .client = &clients[rank][i / THREADS],
                                      .rank = rank, .pin = i, .rounds = rounds};
            CHECK(pthread_create(&reader->thread, NULL, read_all, reader) == 0);
        }
    }
    for (uint32_t rank = 0; rank < world->shape.ranks; rank++) {
        for (unsigned i = 0; (ranks >> rank & 1) != 0 && i <= THREADS; i++)
            CHECK(pthread_join(readers[rank][i].thread, NULL) == 0);
        for (unsigned i = 0; (ranks >> rank & 1) != 0 && i < 2; i++)
            client_close(&clients[rank][i]);
    }
}

static void check_bound(const struct world *world, uint32_t rank)
{
    struct fan_node_stats stats = world_stats(world, rank);
    struct stat st;
    int fd = fan_node_cache_fd(world->nodes[rank]);
    CHECK(fstat(fd, &st) == 0 && (uint64_t)st.st_size <= world->shape.cache_bytes);
    CHECK(stats.cache_bytes == (uint64_t)st.st_size);
    CHECK((uint64_t)st.st_blocks * 512 <= world->shape.cache_bytes);
    CHECK(stats.peak_resident_bytes > 0 && stats.peak_resident_bytes < stats.cache_bytes);
    CHECK(ftruncate(fd, 4096) == -1 && errno == EPERM);
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
        EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    else if (!tiny)
        CHECK(again == 0 && world_stats(&world, 0).evicted == 0);
    if (tiny)
        CHECK(world_stats(&world, 0).evicted > 0 && again > 0);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.failures == 0 && stats.timeouts == 0 && stats.retries == 0);
    CHECK(stats.fetches == 0 || stats.served > 0);
    world_close(&world);
}

/* A file of one block whose pack rank 0 has not. */
static uint64_t remote_file(const struct world *world)
{
    uint64_t record = 1;
    while (world_has(world, 0, world_file_pack(record)) ||
           world_file_bytes(record) > FAN_CACHE_BLOCK_BYTES)
        record++;
    CHECK(record <= WORLD_FILES);
    return record;
}

/* What was cached first stays, however much comes after. */
static void test_minio_keeps(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_MINIO}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t first = remote_file(&world);
    CHECK(client_read(&client, 0, first) == 0);
    read_on(&world, 1, 2);
    uint64_t before = world_stats(&world, 0).fetches;
    CHECK(client_read(&client, 0, first) == 0);
    CHECK(world_stats(&world, 0).fetches == before);
    client_close(&client);
    world_close(&world);
}

/* ---- one owner that the test slows down ---- */

static struct loopback_knobs *knobs(struct world *world, uint32_t rank)
{
    return loopback_knobs(world->loopback, rank);
}

/* Many that want one block cost one request. */
static void test_coalesce(void)
{
    enum { WANTS = 40 };
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    uint64_t file = fan_cache_file(0, remote_file(&world));
    client_open(&client, world.nodes[0]);
    atomic_store(&knobs(&world, 1)->frozen, 1);
    for (unsigned pin = 0; pin < WANTS; pin++)
        client_want(&client, pin, file, 0);
    EVENTUALLY(world_stats(&world, 0).coalesced == WANTS - 1);
    atomic_store(&knobs(&world, 1)->frozen, 0);
    for (unsigned pin = 0; pin < WANTS; pin++)
        CHECK(client_wait(&client, pin) == 0);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.fetches == 1 && stats.coalesced == WANTS - 1);
    CHECK(world_stats(&world, 1).served == 1);
    uint64_t counted = 0;
    for (unsigned bin = 0; bin < FAN_LATENCY_BINS; bin++)
        counted += stats.latency_bins[bin];
    CHECK(counted == WANTS);
    client_close(&client);
    world_close(&world);
}

/* One damaged replica is stepped over; damaged everywhere is EIO. */
static void test_damage(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){3, 2, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    uint64_t record = remote_file(&world);
    client_open(&client, world.nodes[0]);
    world_damage(&world, 1, record);
    CHECK(client_read(&client, 0, record) == 0);
    for (uint64_t other = 1; other <= WORLD_FILES; other++) {
        if (world_has(&world, 0, world_file_pack(other)) || other == record)
            continue;
        world_damage(&world, 1, other);
        world_damage(&world, 2, other);
        CHECK(client_read(&client, 0, other) == -EIO);
        CHECK(world_stats(&world, 0).retries >= 1);
        break;
    }
    CHECK(client_read(&client, 0, record) == 0);
    client_close(&client);
    world_close(&world);
}

/* A lost rank is not asked; what it was asked already goes to the other one, or fails at once. */
static void test_lost(uint32_t replicas)
{
    struct world world;
    struct node_client client;
    world_open(&world,
               (struct world_shape){3, replicas, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&knobs(&world, 1)->frozen, 1);
    unsigned wants = 0;
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (!world_has(&world, 0, world_file_pack(record)) &&
            world_has(&world, 1, world_file_pack(record)))
            client_want(&client, wants++, fan_cache_file(0, record), 0);
    }
    EVENTUALLY(world_stats(&world, 0).fetches >= wants);
    uint64_t last = client.session->pins[wants - 1].file;
    fan_node_lose(world.nodes[0], 1);
    CHECK(fan_node_is_lost(world.nodes[0], 1) && !fan_node_is_lost(world.nodes[0], 2));
    for (unsigned pin = 0; pin < wants; pin++)
        CHECK(client_wait(&client, pin) == (replicas == 1 ? -EREMOTEIO : 0));
    uint64_t asked = world_stats(&world, 0).fetches;
    for (unsigned pin = 0; pin < wants; pin++)
        client_unpin(&client, pin);
    CHECK(client_pin(&client, 0, last, 0) == (replicas == 1 ? -EREMOTEIO : 0));
    client_unpin(&client, 0);
    CHECK(world_stats(&world, 0).fetches - asked <= replicas - 1);
    CHECK(world_stats(&world, 0).lost_ranks == 1);
    atomic_store(&knobs(&world, 1)->frozen, 0);
    client_close(&client);
    world_close(&world);
}

/* A rank that cannot be reached at all is lost by that, and a transport that fails loses all. */
static void test_unreachable(void)
{
    static struct world world; /* outlives the test: see its end */
    struct node_client client;
    world_open(&world, (struct world_shape){3, 2, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&knobs(&world, 1)->cut, 1);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (!world_has(&world, 0, world_file_pack(record)))
            CHECK(client_read(&client, 0, record) == 0);
    }
    CHECK(fan_node_is_lost(world.nodes[0], 1));
    atomic_store(&knobs(&world, 0)->broken, 1);
    EVENTUALLY(fan_node_is_lost(world.nodes[0], 2));
    client_want(&client, 0, fan_cache_file(0, WORLD_FILES * 5), 0);
    CHECK(client_wait(&client, 0) == -EIO);
    CHECK(fan_node_finish(world.nodes[0]) == 0);
    CHECK(fan_node_stop(world.nodes[0]) == -EBUSY);
    atomic_store(&knobs(&world, 0)->broken, 0);
    munmap(client.base, client.bytes);
    fan_node_close(world.nodes[1]);
    fan_node_close(world.nodes[2]);
    fan_node_close(world.nodes[0]); /* leaves all as it is, to the end of the process */
}

/* ---- deadlines ---- */

/* The owner stops, its answers come after the deadline and are written where they were wanted. */
static void test_late(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){3, 2, WORLD_TINY_BYTES, SHORT_MS, FAN_POLICY_CLOSE}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&knobs(&world, 0)->stubborn, 1);
    atomic_store(&knobs(&world, 1)->frozen, 1);
    read_on(&world, 1, 1);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.timeouts > 0 && stats.quarantined > 0 && stats.retries > 0);
    atomic_store(&knobs(&world, 1)->delay_us, 2000);
    atomic_store(&knobs(&world, 1)->frozen, 0);
    read_on(&world, 1, 2);
    EVENTUALLY(world_stats(&world, 0).quarantined == 0);
    CHECK(loopback_late_bytes(world.loopback) > 0);
    client_close(&client);
    world_close(&world);
}

/* A silent rank that alone has a file costs one deadline, not one for each read. */
static void test_suspect(void)
{
    enum { READS = 20 };
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, 1000, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&knobs(&world, 1)->deaf, 1);
    uint64_t record = remote_file(&world);
    for (unsigned i = 0; i < READS; i++)
        CHECK(client_read(&client, 0, record) == -EREMOTEIO);
    uint64_t tried = world_stats(&world, 0).fetches;
    CHECK(tried >= 1 && tried < READS && world_stats(&world, 0).failures == READS);
    atomic_store(&knobs(&world, 1)->deaf, 0);
    EVENTUALLY(client_read(&client, 0, record) == 0);
    client_close(&client);
    world_close(&world);
}

/* ---- clients that die or lie ---- */

static void test_dead_client(void)
{
    struct world world;
    struct node_client client, other;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_CLOSE}, 0);
    uint64_t record = remote_file(&world), file = fan_cache_file(0, record);
    client_open(&other, world.nodes[0]);
    client_open(&client, world.nodes[0]);
    CHECK(client_pin(&client, 0, file, 0) == 0); /* held, and nobody has it open */
    CHECK(client_read(&other, 0, record) == 0);
    CHECK(world_stats(&world, 0).fetches == 1 && world_stats(&world, 0).resident_bytes > 0);
    atomic_store(&knobs(&world, 1)->frozen, 1);
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
    atomic_store(&knobs(&world, 1)->frozen, 0);
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
        {UINT64_MAX, UINT64_MAX},             {fan_cache_file(0, remote_file(&world)), 1},
        {fan_cache_file(0, remote_file(&world)), UINT64_MAX},
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
    memset(client.base + client.header->buckets_offset, 0,
           (size_t)(client.header->data_offset - client.header->buckets_offset));
    client_open(&other, world.nodes[0]);
    CHECK(client_read(&other, 0, remote_file(&world)) == 0);
    client_close(&other);
    munmap(client.base, client.bytes);
    world_close(&world);
}

/* ---- the other side ---- */

/* The answer of rank 0 to a request of rank 1, which the test plays. 0 or -errno. */
static int ask_rank_0(struct world *world, struct fan_fetch_request request, void *to)
{
    struct fan_transport *transport = loopback_transport(world->loopback, 1);
    struct fan_transport_event event;
    CHECK(transport->fetch(transport->context, 0, &request, to, 77) == 0);
    EVENTUALLY(transport->poll(transport->context, &event, 1) == 1);
    CHECK(event.kind == FAN_EVENT_FETCHED && event.token == 77);
    return event.error;
}

static void test_server(void)
{
    static uint8_t buffer[FAN_CACHE_BLOCK_BYTES + 4096];
    struct world world;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_LRU}, 2);
    uint64_t own = 1, foreign = remote_file(&world);
    while (own < WORLD_FILES && (!world_has(&world, 0, world_file_pack(own)) ||
                                 world_file_bytes(own) >= FAN_CACHE_BLOCK_BYTES))
        own++;
    uint32_t bytes = (uint32_t)world_file_bytes(own);
    const struct fan_fetch_request good = {.pack = world_file_pack(own), .record = own,
                                           .offset = world_file_offset(own), .bytes = bytes};
    CHECK(ask_rank_0(&world, good, buffer) == 0);
    CHECK(memcmp(buffer, world_content(own), good.bytes) == 0);
    struct fan_fetch_request bad[8];
    for (unsigned i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].mount = 1;
    bad[1].pack = (good.pack + 2) % WORLD_PACKS;
    bad[2].record = WORLD_FILES + 1;
    bad[3].offset--;
    bad[4].bytes++;
    bad[5].bytes = 0;
    bad[6].offset = UINT64_MAX;
    bad[7].record = 0;
    for (unsigned i = 0; i < 8; i++)
        CHECK(ask_rank_0(&world, bad[i], buffer) == -EINVAL);
    const struct fan_fetch_request absent = {.pack = world_file_pack(foreign), .record = foreign,
                                             .offset = world_file_offset(foreign), .bytes = 1};
    CHECK(ask_rank_0(&world, absent, buffer) == -ENOENT);
    world_damage(&world, 0, own);
    CHECK(ask_rank_0(&world, good, buffer) == -EIO);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.served == 1 && stats.served_bytes == bytes && stats.refused == 10);
    world_close(&world);
}

/* ---- the end ---- */

static void test_finish(void)
{
    struct world world;
    world_open(&world, (struct world_shape){3, 1, WORLD_TINY_BYTES, SHORT_MS, FAN_POLICY_LRU}, 0);
    EVENTUALLY(fan_node_finish(world.nodes[0]) == 2);
    EVENTUALLY(fan_node_finish(world.nodes[1]) == 1);
    EVENTUALLY(fan_node_finish(world.nodes[0]) == 1);
    pause_ms(5 * SHORT_MS); /* rank 2 is busy, and answers: it is not lost */
    CHECK(fan_node_finish(world.nodes[0]) == 1 && !fan_node_is_lost(world.nodes[0], 2));
    atomic_store(&knobs(&world, 2)->frozen, 1);
    EVENTUALLY(fan_node_finish(world.nodes[0]) == 0);
    CHECK(fan_node_is_lost(world.nodes[0], 2));
    atomic_store(&knobs(&world, 2)->frozen, 0);
    EVENTUALLY(fan_node_finish(world.nodes[2]) == 0);
    CHECK(!fan_node_is_lost(world.nodes[2], 0));
    world_close(&world);
}

/* Who waits when the daemon stops is told; a receive that may still be written to is not denied. */
static void test_stop(bool stubborn)
{
    static struct world world; /* outlives the test where rank 0 has to be left as it is */
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&knobs(&world, 0)->stubborn, stubborn);
    atomic_store(&knobs(&world, 1)->deaf, 1);
    client_want(&client, 0, fan_cache_file(0, remote_file(&world)), 0);
    EVENTUALLY(world_stats(&world, 0).outstanding == 1);
    CHECK(fan_node_stop(world.nodes[0]) == (stubborn ? -EBUSY : 0));
    CHECK(client_wait(&client, 0) == -EREMOTEIO);
    CHECK(client.header->state == FAN_JOB_ENDED);
    munmap(client.base, client.bytes);
    if (stubborn)
        fan_node_close(world.nodes[1]);
    else
        world_close(&world);
}

int main(void)
{
    test_granules();
    for (int policy = FAN_POLICY_CLOSE; policy <= FAN_POLICY_MINIO; policy++) {
        test_policy((enum fan_policy)policy, WORLD_LARGE_BYTES);
        test_policy((enum fan_policy)policy, WORLD_TINY_BYTES);
    }
    test_minio_keeps();
    test_coalesce();
    test_damage();
    test_lost(1);
    test_lost(2);
    test_unreachable();
    test_late();
    test_suspect();
    test_dead_client();
    test_hostile_client();
    test_server();
    test_finish();
    test_stop(false);
    test_stop(true);
    printf("test_node: no fault\n");
    return 0;
}
