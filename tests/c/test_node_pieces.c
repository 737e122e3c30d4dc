/* Pieces of blocks: what a random read brings, once, whoever asks for it and in whatever order. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "../../csrc/format/trace_format.h"
#include "../../csrc/node/foresight/orders.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum {
    LONG_MS = 30000,
    SHORT_MS = 300,
    GRANULE = FAN_CACHE_GRANULE_BYTES,
    BLOCK = FAN_CACHE_BLOCK_BYTES,
    READERS = 4,
    ROUNDS = 3000
};

static void open_two(struct world *world, struct node_client *client, uint64_t cache_bytes,
                     uint64_t deadline_ms)
{
    world_open(world, (struct world_shape){2, 1, cache_bytes, deadline_ms, FAN_POLICY_LRU}, 0);
    client_open(client, world->nodes[0]);
}

static void close_two(struct world *world, struct node_client *client)
{
    client_close(client);
    world_close(world);
}

/* A file of four blocks that rank 0 has not. */
static uint64_t long_file(const struct world *world)
{
    uint64_t record = 1;
    while (world_file_bytes(record) <= 3 * BLOCK || world_has(world, 0, world_file_pack(record)))
        record++;
    CHECK(record <= WORLD_FILES);
    return record;
}

/* Waits for pin `pin`, and compares and frees it: it has `count` granules from `from` on. */
static void expect(struct node_client *client, unsigned pin, uint64_t record, uint64_t block,
                   uint32_t from, uint32_t count)
{
    CHECK(client_wait(client, pin) == 0);
    struct fan_piece got = client_compare_part(client, pin, record, block);
    CHECK(got.from == from && got.count == count);
    client_unpin(client, pin);
}

static void test_only_what_is_asked(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = long_file(&world), tail = world_file_bytes(record) % BLOCK;
    uint32_t last = (uint32_t)((tail - 1) / GRANULE);
    client_want_part(&client, 0, record, 1, 20, 4);
    expect(&client, 0, record, 1, 20, 4);
    CHECK(world_stats(&world, 0).fetched_bytes == 4 * GRANULE);
    CHECK(world_stats(&world, 0).resident_bytes == 4 * GRANULE);
    client_want_part(&client, 0, record, 1, 22, 1); /* is there */
    expect(&client, 0, record, 1, 20, 4);
    client_want_part(&client, 0, record, 3, last, 4); /* reaches beyond the file */
    expect(&client, 0, record, 3, last, 1);
    CHECK(world_stats(&world, 0).fetched_bytes == 4 * GRANULE + tail - (uint64_t)last * GRANULE);
    client_want_part(&client, 0, record, 2, 0, 300); /* a whole block after all */
    expect(&client, 0, record, 2, 0, FAN_BLOCK_GRANULES);
    CHECK(world_stats(&world, 0).fetches == 3);
    close_two(&world, &client);
}

/* A short file comes whole, because the disk may keep it, and orders count on it. */
static void test_short_file(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = world_remote_file(&world);
    client_want_part(&client, 0, record, 0, 0, 1);
    CHECK(client_wait(&client, 0) == 0);
    client_compare(&client, 0, record, 0);
    client_unpin(&client, 0);
    client_want_part(&client, 0, record, 0, 256, 1);
    CHECK(client_wait(&client, 0) ==
          0); /* it is there whole, and the client would see its length */
    client_unpin(&client, 0);
    close_two(&world, &client);
}

/* Who reads on from front to back gets the rest of a block of which pieces have come. */
static void test_never_again(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = long_file(&world);
    client_want_part(&client, 0, record, 1, 20, 4);
    expect(&client, 0, record, 1, 20, 4);
    client_want_part(&client, 0, record, 1, 10, 30);
    expect(&client, 0, record, 1, 10, 10);
    client_want_part(&client, 0, record, 1, 0, 0);
    expect(&client, 0, record, 1, 0, 10);
    client_want_part(&client, 0, record, 1, 24, 0);
    expect(&client, 0, record, 1, 24, FAN_BLOCK_GRANULES - 24);
    CHECK(world_stats(&world, 0).fetched_bytes == BLOCK);
    for (uint32_t granule = 0; granule < FAN_BLOCK_GRANULES; granule++) {
        client_want_part(&client, 0, record, 1, granule, 1);
        CHECK(client_wait(&client, 0) == 0);
        struct fan_piece got = client_compare_part(&client, 0, record, 1);
        CHECK(granule >= got.from && granule < got.from + got.count);
        client_unpin(&client, 0);
    }
    CHECK(world_stats(&world, 0).fetched_bytes == BLOCK);
    close_two(&world, &client);
}

/* Two clients want overlapping pieces while neither has come, and a third the whole block. */
static void test_at_once(void)
{
    struct world world;
    struct node_client client, other;
    open_two(&world, &client, WORLD_LARGE_BYTES, LONG_MS);
    client_open(&other, world.nodes[0]);
    uint64_t record = long_file(&world);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    client_want_part(&client, 0, record, 1, 10, 8);
    EVENTUALLY(world_stats(&world, 0).fetches == 1);
    client_want_part(&other, 0, record, 1, 14, 8);
    client_want_part(&other, 1, record, 1, 6, 8);
    client_want_part(&other, 2, record, 1, 17, 0);
    EVENTUALLY(world_stats(&world, 0).coalesced == 2 && world_stats(&world, 0).fetches == 2);
    client_want_part(&other, 3, record, 1, 18, 0); /* the rest */
    EVENTUALLY(world_stats(&world, 0).fetches == 3);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    expect(&client, 0, record, 1, 10, 8);
    expect(&other, 0, record, 1, 10, 8);
    expect(&other, 1, record, 1, 6, 4);
    expect(&other, 2, record, 1, 10, 8);
    expect(&other, 3, record, 1, 18, FAN_BLOCK_GRANULES - 18);
    CHECK(world_stats(&world, 0).fetched_bytes == BLOCK - 6 * GRANULE);
    client_close(&other);
    close_two(&world, &client);
}

/* A piece that is wanted while its whole block is on its way is not asked for. */
static void test_under_way_whole(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = long_file(&world);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    client_want_part(&client, 0, record, 1, 40, 0); /* none of it is here: all of it comes */
    client_want_part(&client, 1, record, 1, 3, 4);
    EVENTUALLY(world_stats(&world, 0).coalesced == 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    expect(&client, 0, record, 1, 0, FAN_BLOCK_GRANULES);
    expect(&client, 1, record, 1, 0, FAN_BLOCK_GRANULES);
    CHECK(world_stats(&world, 0).fetches == 1);
    close_two(&world, &client);
}

/* The rank dies while two pieces are on their way, one of which two clients wait for. */
static void test_rank_dies(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = long_file(&world);
    client_want_part(&client, 0, record, 1, 0, 4);
    expect(&client, 0, record, 1, 0, 4);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    client_want_part(&client, 1, record, 1, 10, 4);
    client_want_part(&client, 2, record, 1, 12, 4);
    client_want_part(&client, 3, record, 1, 20, 0);
    EVENTUALLY(world_stats(&world, 0).outstanding == 2 && world_stats(&world, 0).coalesced == 1);
    fan_node_lose(world.nodes[0], 1);
    for (unsigned pin = 1; pin < 4; pin++) {
        CHECK(client_wait(&client, pin) == -EIO); /* there is no shared file system here */
        client_unpin(&client, pin);
    }
    client_want_part(&client, 0, record, 1, 2, 8); /* what had come is still there */
    expect(&client, 0, record, 1, 0, 4);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    close_two(&world, &client);
}

/* A late or refused answer: the next replica is asked for the same piece. */
static void test_replica(bool late)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){3, 2, WORLD_LARGE_BYTES, SHORT_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t record = long_file(&world);
    for (uint32_t rank = 1; rank < 3; rank++) {
        atomic_store(late ? &world_knobs(&world, rank)->deaf : &world_knobs(&world, rank)->refuse,
                     late ? 1 : EIO);
        client_want_part(&client, 0, record, 1, 30 + 10 * rank, 5);
        expect(&client, 0, record, 1, 30 + 10 * rank, 5);
        atomic_store(&world_knobs(&world, rank)->deaf, 0);
        atomic_store(&world_knobs(&world, rank)->refuse, 0);
    }
    CHECK(world_stats(&world, 0).retries >= 1);
    client_close(&client);
    world_close(&world);
}

/* ---- many at once, in a cache that is too small ---- */

struct reader {
    struct world *world;
    unsigned seed;
};

static unsigned draw(unsigned *seed, unsigned below)
{
    *seed = *seed * 1664525 + 1013904223;
    return (*seed >> 8) % below;
}

static void *read_at_random(void *data)
{
    struct reader *reader = data;
    struct node_client client;
    uint64_t first = long_file(reader->world);
    client_open(&client, reader->world->nodes[0]);
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t record = first + draw(&reader->seed, (unsigned)(WORLD_FILES + 1 - first));
        uint64_t bytes = world_file_bytes(record);
        if (bytes == 0 || world_has(reader->world, 0, world_file_pack(record)))
            continue;
        uint64_t at = ((uint64_t)draw(&reader->seed, 1 << 16) << 16) % bytes, block = at / BLOCK;
        uint32_t from = (uint32_t)(at % BLOCK / GRANULE), count = draw(&reader->seed, 40);
        client_want_part(&client, 0, record, block, from, count);
        CHECK(client_wait(&client, 0) == 0);
        struct fan_piece got = client_compare_part(&client, 0, record, block);
        CHECK(from >= got.from && from < got.from + got.count);
        client_unpin(&client, 0);
    }
    client_close(&client);
    return NULL;
}

static void test_random(enum fan_policy policy)
{
    struct world world;
    struct reader readers[READERS];
    pthread_t threads[READERS];
    world_open(&world, (struct world_shape){3, 1, WORLD_TINY_BYTES, LONG_MS, policy}, 0);
    for (unsigned i = 0; i < READERS; i++) {
        readers[i] = (struct reader){&world, i};
        CHECK(pthread_create(&threads[i], NULL, read_at_random, &readers[i]) == 0);
    }
    for (unsigned i = 0; i < READERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(world_stats(&world, 0).evicted > 0 && world_stats(&world, 0).failures == 0);
    world_close(&world);
}

enum { PIECE = FAN_PIECE_BYTES, PIECE_GRANULES = PIECE / GRANULE };

/* The entry of an order for a piece of a file. */
static uint64_t piece_of(uint64_t record, uint64_t piece)
{
    return record | (piece + 1) << FAN_ENTRY_PIECE_SHIFT;
}

static bool is_quiet(const struct world *world)
{
    struct fan_node_stats stats = world_stats(world, 0);
    return stats.outstanding == 0 && stats.fetches == stats.ahead;
}

/* The pieces of an order come before they are read, each once, and go when they are passed, though
 * their file stays open. */
static void test_order(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, policy}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t record = long_file(&world), bytes = world_file_bytes(record);
    uint64_t last = (bytes - 1) / PIECE;
    const uint64_t entries[] = {piece_of(record, 70), piece_of(record, last), piece_of(record, 0),
                                piece_of(record, 70)};
    const uint64_t wrong[] = {piece_of(record, last + 1), piece_of(WORLD_FILES + 9, 0)};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        CHECK(fan_node_order_begin(world.nodes[0], 0, &wrong[i], 1, 0) == -EINVAL);
    enum { COUNT = sizeof(entries) / sizeof(entries[0]) };
    uint64_t id = world_begin_order(&world, entries, COUNT),
             expected = 2 * PIECE + bytes - last * PIECE;
    EVENTUALLY(world_stats(&world, 0).ahead_bytes == expected && is_quiet(&world));
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    client_want_part(&client, 0, record, 1, 6 * PIECE_GRANULES + 1, 2);
    expect(&client, 0, record, 1, 6 * PIECE_GRANULES, PIECE_GRANULES);
    client_want_part(&client, 0, record, 0, 0, 1);
    expect(&client, 0, record, 0, 0, PIECE_GRANULES);
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    CHECK(fan_node_order_pass(world.nodes[0], id, 1) == 0); /* piece 70 is awaited again */
    CHECK(world_stats(&world, 0).resident_bytes >= expected);
    CHECK(fan_node_order_pass(world.nodes[0], id, COUNT) == 0);
    if (policy == FAN_POLICY_CLOSE)
        EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    CHECK(world_stats(&world, 0).fetched_bytes == expected);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    close_two(&world, &client);
}

/* Of a piece that is here in part only the rest comes, on both sides. */
static void test_order_beside_fragments(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = long_file(&world);
    client_want_part(&client, 0, record, 1, 9, 1);
    expect(&client, 0, record, 1, 9, 1);
    const uint64_t entries[] = {piece_of(record, 66)};
    uint64_t id = world_begin_order(&world, entries, 1);
    EVENTUALLY(world_stats(&world, 0).ahead == 2 && world_stats(&world, 0).outstanding == 0);
    CHECK(world_stats(&world, 0).fetched_bytes == PIECE);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    close_two(&world, &client);
}

/* An order whose pieces nobody reads brings few of them, until they are read. */
static void test_order_in_vain(void)
{
    enum { COUNT = 6000, STEP = 16, UNREAD = 4000 };
    static uint64_t entries[COUNT];
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_CLOSE}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t record = long_file(&world);
    for (uint64_t i = 0; i < COUNT; i++)
        entries[i] = piece_of(record, i * 7 % 192);
    uint64_t id = world_begin_order(&world, entries, COUNT);
    for (uint64_t i = STEP; i < UNREAD; i += STEP) {
        EVENTUALLY(is_quiet(&world));
        CHECK(fan_node_order_pass(world.nodes[0], id, i) == 0);
    }
    CHECK(world_stats(&world, 0).ahead < UNREAD / 4);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    close_two(&world, &client);
}

int main(void)
{
    test_only_what_is_asked();
    test_short_file();
    test_never_again();
    test_at_once();
    test_under_way_whole();
    test_rank_dies();
    test_replica(false);
    test_replica(true);
    test_random(FAN_POLICY_LRU);
    test_random(FAN_POLICY_MINIO);
    test_random(FAN_POLICY_CLOSE);
    test_order(FAN_POLICY_CLOSE);
    test_order(FAN_POLICY_BELADY);
    test_order_beside_fragments();
    test_order_in_vain();
    printf("test_node_pieces: no fault\n");
    return 0;
}
