/* What is brought before anybody wants it: when, and behind what. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "../../csrc/node/storage/readers.h"
#include "../../csrc/node/foresight/streams.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { LONG_MS = 30000, SHORT_MS = 300, FILE_A = 7, FILE_B = 9 };

/* ---- runs ---- */

static void test_streams(void)
{
    static struct fan_streams streams;
    const uint32_t front_to_back[][2] = {{0, 0}, {1, 0}, {2, 3}, {6, 4}, {11, 5}, {17, 6}};
    for (unsigned i = 0; i < sizeof(front_to_back) / sizeof(front_to_back[0]); i++)
        CHECK(fan_streams_note(&streams, 1, FILE_A, front_to_back[i][0]) == front_to_back[i][1]);
    CHECK(fan_streams_note(&streams, 1, FILE_A, 17) == 0); /* it was wanted already */
    CHECK(fan_streams_note(&streams, 1, FILE_A, 100) == 0);
    for (uint64_t block = 0; block < 40; block++) /* each still under way when it is wanted */
        CHECK(fan_streams_note(&streams, 3, FILE_A, block) == (block < 2   ? 0
                                                               : block < 7 ? block + 1
                                                                           : 8));
    for (uint64_t block = 0; block < 1000; block += 3) {   /* reads across a border */
        CHECK(fan_streams_note(&streams, 2, FILE_A, block) == 0);
        CHECK(fan_streams_note(&streams, 2, FILE_A, block + 1) == 0);
    }
    for (uint64_t block = 1000; block > 0; block--) /* back to front */
        CHECK(fan_streams_note(&streams, 2, FILE_B, block) == 0);
}

/* ---- a node ---- */

/* A file of four blocks that rank 0 has not. */
static uint64_t long_file(const struct world *world)
{
    uint64_t record = 1;
    while (world_file_bytes(record) <= 3 * FAN_CACHE_BLOCK_BYTES ||
           world_has(world, 0, world_file_pack(record)))
        record++;
    CHECK(record <= WORLD_FILES);
    return record;
}

static void read_block(struct node_client *client, uint64_t record, uint64_t block)
{
    CHECK(client_pin(client, 0, fan_cache_file(0, record), block) == 0);
    client_compare(client, 0, record, block);
    client_unpin(client, 0);
}

/* From front to back the last block is there before it is wanted; in another order none is. */
static void test_front_to_back(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, policy}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t record = long_file(&world);
    client_note(&client, fan_cache_file(0, record));
    for (uint64_t block = 0; block < 3; block++)
        read_block(&client, record, block);
    EVENTUALLY(world_stats(&world, 0).fetches == 4 && world_stats(&world, 0).outstanding == 0);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    read_block(&client, record, 3);
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    CHECK(world_stats(&world, 0).ahead == 1 && world_stats(&world, 0).fetches == 4);
    client_close(&client);
    world_close(&world);
}

static void test_back_to_front(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    for (uint64_t block = 4; block > 0; block--)
        read_block(&client, long_file(&world), block - 1);
    CHECK(world_stats(&world, 0).ahead == 0 && world_stats(&world, 0).fetches == 4);
    client_close(&client);
    world_close(&world);
}

/* What is on its way is not asked for again by who comes to want it. */
static void test_joined(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t record = long_file(&world), file = fan_cache_file(0, record);
    read_block(&client, record, 0);
    read_block(&client, record, 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    client_want(&client, 0, file, 2);
    EVENTUALLY(world_stats(&world, 0).ahead == 1);
    client_want(&client, 1, file, 3);
    EVENTUALLY(world_stats(&world, 0).coalesced == 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    CHECK(client_wait(&client, 0) == 0 && client_wait(&client, 1) == 0);
    CHECK(world_stats(&world, 0).fetches == 4);
    client_close(&client);
    world_close(&world);
}

/* A rank that does not answer what nobody waits for any more is not taken for a late one. */
static void test_nobody_waits(bool somebody)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, SHORT_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    client_want(&client, 0, fan_cache_file(0, long_file(&world)), 0);
    EVENTUALLY(world_stats(&world, 0).fetches == 1);
    if (!somebody)
        client_close(&client);
    EVENTUALLY(world_stats(&world, 0).timeouts == 1);
    CHECK(fan_node_is_late(world.nodes[0], 1) == somebody);
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    if (somebody)
        client_close(&client);
    world_close(&world);
}

/* ---- readers ---- */

/* hold: what has begun waits until this is false. chosen, begun: how many took a place in `order`,
 * and stand there. */
static atomic_bool hold;
static atomic_int chosen, begun;
static atomic_int order[64];

struct numbered {
    struct fan_reading reading;
    int number;
};

static int read_numbered(struct fan_reading *reading)
{
    int place = atomic_fetch_add(&chosen, 1);
    atomic_store(&order[place], ((struct numbered *)reading)->number);
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&hold))
        pause_ms(1);
    return 0;
}

static void forget(struct fan_node *node, struct fan_reading *reading)
{
    (void)node;
    (void)reading;
}

static void ring_nobody(void *of)
{
    (void)of;
}

static void give(struct fan_readers *readers, struct numbered *reading, int number,
                 enum fan_urgency urgency)
{
    *reading = (struct numbered){
        .reading = {.urgency = urgency, .read = read_numbered, .done = forget}, .number = number};
    CHECK(fan_readers_give(readers, &reading->reading) == 0);
}

static int place_of(int number)
{
    for (int i = 0; i < atomic_load(&begun); i++) {
        if (atomic_load(&order[i]) == number)
            return i;
    }
    return -1;
}

/* Threads are left for demands whatever is brought ahead; what waits goes before it; so does what
 * somebody has come to wait for. */
static void test_readers(void)
{
    enum { AHEAD = FAN_READERS_AHEAD_MAX + 4, DEMANDS = FAN_READERS_MAX };
    static struct numbered ahead[AHEAD], demands[DEMANDS];
    struct fan_readers readers;
    fan_readers_init(&readers, ring_nobody, NULL);
    atomic_store(&hold, true);
    for (int i = 0; i < AHEAD; i++)
        give(&readers, &ahead[i], i, FAN_AHEAD);
    EVENTUALLY(atomic_load(&begun) == FAN_READERS_AHEAD_MAX);
    for (int i = 0; i < DEMANDS; i++)
        give(&readers, &demands[i], 100 + i, FAN_DEMAND);
    EVENTUALLY(atomic_load(&begun) == FAN_READERS_MAX);
    CHECK(fan_readers_waiting(&readers) == AHEAD + DEMANDS - FAN_READERS_MAX);
    fan_readers_hurry(&readers, &ahead[AHEAD - 1].reading);
    CHECK(fan_readers_take_back(&readers, &ahead[AHEAD - 2].reading));
    CHECK(!fan_readers_take_back(&readers, &ahead[0].reading));
    atomic_store(&hold, false);
    EVENTUALLY(atomic_load(&begun) == AHEAD + DEMANDS - 1);
    CHECK(place_of(AHEAD - 2) == -1);
    for (int i = FAN_READERS_AHEAD_MAX; i < AHEAD - 2; i++)
        CHECK(place_of(i) > place_of(AHEAD - 1) && place_of(i) > place_of(100 + DEMANDS - 1));
    fan_readers_end(&readers);
    EVENTUALLY((fan_readers_advance(&readers, NULL), fan_readers_have_ended(&readers)));
    fan_readers_fini(&readers);
}

int main(void)
{
    test_streams();
    test_front_to_back(FAN_POLICY_LRU);
    test_front_to_back(FAN_POLICY_CLOSE);
    test_back_to_front();
    test_joined();
    test_nobody_waits(true);
    test_nobody_waits(false);
    test_readers();
    printf("test_node_ahead: no fault\n");
    return 0;
}
