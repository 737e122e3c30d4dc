/* Hints: what is brought for them, how much of it, for how long it stays, and what they never do.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../csrc/node/foresight/hint_line.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { LONG_MS = 30000, SHORT_MS = 300 };

static void open_two(struct world *world, struct node_client *client, uint64_t cache_bytes,
                     enum fan_policy policy)
{
    world_open(world, (struct world_shape){2, 1, cache_bytes, LONG_MS, policy}, 0);
    client_open(client, world->nodes[0]);
}

static uint64_t blocks_of(uint64_t record)
{
    return (world_file_bytes(record) + FAN_CACHE_BLOCK_BYTES - 1) / FAN_CACHE_BLOCK_BYTES;
}

static bool is_remote(const struct world *world, uint64_t record)
{
    return world_file_bytes(record) > 0 && !world_has(world, 0, world_file_pack(record));
}

/* A hint, given again until there is a place for it. */
static void hint(struct node_client *client, uint64_t record, uint64_t block, uint64_t count)
{
    EVENTUALLY(client_hint(client, fan_cache_file(0, record), block, count) == 0);
}

static bool is_quiet(const struct world *world)
{
    return world_stats(world, 0).outstanding == 0;
}

/* A file of several blocks that rank 0 has not. */
static uint64_t long_file(const struct world *world)
{
    uint64_t record = 1;
    while (blocks_of(record) < 4 || !is_remote(world, record))
        record++;
    return record;
}

/* What was hinted at is there before it is wanted, although nobody had the file open; when it was
 * read and closed, it goes as any other. */
static void test_brought(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, policy);
    uint64_t record = long_file(&world), blocks = blocks_of(record);
    hint(&client, record, 0, blocks);
    EVENTUALLY(world_stats(&world, 0).ahead == blocks && is_quiet(&world));
    client_drop(&client, client_note(&client, fan_cache_file(0, record))); /* it is not read yet */
    EVENTUALLY(client.session->closed[0] == 0);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    CHECK(client_read(&client, 0, record) == 0);
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    CHECK(world_stats(&world, 0).fetches == blocks && world_stats(&world, 0).hints_dropped == 0);
    if (policy == FAN_POLICY_CLOSE)
        EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    client_close(&client);
    world_close(&world);
}

/* Of all files together hints bring no more than their share of the cache; then, and with all of
 * that unread, every file can be read. */
static void test_share(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_TINY_BYTES, policy);
    for (unsigned round = 0; round < 4; round++) {
        for (uint64_t record = 1; record <= WORLD_FILES; record++) {
            if (is_remote(&world, record))
                hint(&client, record, 0, blocks_of(record));
        }
    }
    EVENTUALLY(world_stats(&world, 0).hints_dropped > 0 && is_quiet(&world));
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.ahead > 0 && stats.resident_bytes <= stats.cache_bytes / 2);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (is_remote(&world, record))
            CHECK(client_read(&client, 0, record) == 0);
    }
    CHECK(world_stats(&world, 0).failures == 0);
    client_close(&client);
    world_close(&world);
}

/* What was read is unread no longer: hints go on to be followed. */
static void test_share_is_given_back(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_TINY_BYTES, FAN_POLICY_LRU);
    for (unsigned round = 0; round < 8; round++) {
        for (uint64_t record = 1; record <= WORLD_FILES; record++) {
            if (!is_remote(&world, record) || blocks_of(record) > 1)
                continue;
            hint(&client, record, 0, 1);
            EVENTUALLY(client.session->hints[0].state == FAN_HINT_FREE && is_quiet(&world));
            CHECK(client_read(&client, 0, record) == 0);
        }
    }
    CHECK(world_stats(&world, 0).hints_dropped == 0);
    client_close(&client);
    world_close(&world);
}

/* More hints than there is a line for, while no source answers: nobody waits, and what is wanted
 * comes at once. */
static void test_line(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_MINIO);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    uint64_t record = long_file(&world);
    for (unsigned round = 0; world_stats(&world, 0).hints_dropped == 0; round++) {
        CHECK(round < FAN_HINTS);
        for (uint64_t other = 1; other <= WORLD_FILES; other++) {
            if (other != record && is_remote(&world, other))
                hint(&client, other, 0, blocks_of(other));
        }
    }
    client_want(&client, 0, fan_cache_file(0, record), 0);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    CHECK(client_wait(&client, 0) == 0);
    client_unpin(&client, 0);
    EVENTUALLY(is_quiet(&world));
    client_close(&client);
    world_close(&world);
}

/* A want joins what a hint has begun. */
static void test_joined(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_CLOSE);
    uint64_t record = long_file(&world), file = fan_cache_file(0, record);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    hint(&client, record, 1, 1);
    EVENTUALLY(world_stats(&world, 0).ahead == 1);
    client_want(&client, 0, file, 1);
    EVENTUALLY(world_stats(&world, 0).coalesced == 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    CHECK(client_wait(&client, 0) == 0);
    client_compare(&client, 0, record, 1);
    client_unpin(&client, 0);
    CHECK(world_stats(&world, 0).fetches == 1);
    client_close(&client);
    world_close(&world);
}

/* A rank that does not answer hints is not taken for a late one; a later hint is followed. */
static void test_silence(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, SHORT_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    uint64_t record = long_file(&world);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    hint(&client, record, 0, 2);
    EVENTUALLY(world_stats(&world, 0).timeouts == 2);
    CHECK(!fan_node_is_late(world.nodes[0], 1));
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    hint(&client, record, 2, 1);
    EVENTUALLY(world_stats(&world, 0).fetched_bytes >= FAN_CACHE_BLOCK_BYTES && is_quiet(&world));
    client_close(&client);
    world_close(&world);
}

/* No such mount, file or block; far too many blocks; none. */
static void test_nonsense(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_LRU);
    uint64_t record = long_file(&world), file = fan_cache_file(0, record);
    const uint64_t odd[][3] = {{0, 0, 1},
                               {UINT64_MAX, 0, 9},
                               {fan_cache_file(200, 1), 0, 1},
                               {fan_cache_file(0, 0), 0, 1},
                               {fan_cache_file(0, UINT32_MAX), 0, 1},
                               {file, 1000, 3},
                               {file, UINT64_MAX, 2},
                               {file, 0, 0}};
    for (unsigned i = 0; i < sizeof(odd) / sizeof(odd[0]); i++)
        EVENTUALLY(client_hint(&client, odd[i][0], odd[i][1], odd[i][2]) == 0);
    hint(&client, record, 1, UINT64_MAX - 1);
    EVENTUALLY(world_stats(&world, 0).ahead == blocks_of(record) - 1 && is_quiet(&world));
    CHECK(world_stats(&world, 0).failures == 0);
    client_close(&client);
    world_close(&world);
}

/* The places of a client that is gone are free for the next one. */
static void test_dead_client(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_LRU);
    struct fan_hint *first = &client.session->hints[0];
    __atomic_store_n(&first->state, FAN_HINT_CLAIMED, __ATOMIC_SEQ_CST);
    uint32_t number = client.number;
    client_close(&client);
    client_open(&client, world.nodes[0]);
    CHECK(client.number == number && client.session->hints[0].state == FAN_HINT_FREE);
    client_close(&client);
    world_close(&world);
}

/* A file of this rank's share comes to its disk, and takes no room in the cache; others' come there
 * from whoever keeps them. */
static void test_share_of_disk(void)
{
    struct world world;
    struct node_client client;
    struct world_shape shape = {2, 0, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_MINIO, true, true};
    world_open(&world, shape, 0);
    client_open(&client, world.nodes[0]);
    uint64_t own = 0, others = 0;
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (world_keeper(&world, record) == 0) {
            hint(&client, record, 0, blocks_of(record));
            own++;
        }
    }
    EVENTUALLY(world_stats(&world, 0).kept_records == own);
    EVENTUALLY(world_stats(&world, 0).filling_ahead == 0);
    CHECK(world_stats(&world, 0).resident_bytes == 0 && world_stats(&world, 0).ahead == 0);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (world_keeper(&world, record) == 1 && blocks_of(record) == 1 && others < 4) {
            hint(&client, record, 0, 1);
            others++;
        }
    }
    EVENTUALLY(world_stats(&world, 0).ahead == others && is_quiet(&world));
    CHECK(world_stats(&world, 1).kept_records == others);
    client_close(&client);
    world_close(&world);
}

/* Asks where block 0 of each of `records` is until none of them is on its way; what is BEGUN twice
 * did not come. How many are in each place at the end. */
static void reach_all(struct world *world, uint64_t count, const uint64_t *records,
                      unsigned *places)
{
    uint64_t blocks[WORLD_FILES] = {0}, begun[WORLD_FILES] = {0};
    uint32_t reached[WORLD_FILES];
    bool left = true;
    for (int steps = 0; left; steps++) {
        CHECK(steps < 30000);
        fan_node_reach(world->nodes[0], 0, records, blocks, count, reached);
        memset(places, 0, (FAN_REACH_NOWHERE + 1) * sizeof(*places));
        left = false;
        for (uint64_t i = 0; i < count; i++) {
            CHECK(reached[i] <= FAN_REACH_NOWHERE);
            begun[i] += reached[i] == FAN_REACH_BEGUN;
            CHECK(begun[i] <= 1);
            places[reached[i]]++;
            left |= reached[i] >= FAN_REACH_COMING && reached[i] <= FAN_REACH_LATER;
        }
        pause_ms(1);
    }
}

/* Whoever waits for files learns of each where it is by now. */
static void test_reach(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_CLOSE);
    uint64_t records[WORLD_FILES], others = 0;
    unsigned places[FAN_REACH_NOWHERE + 1];
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        records[record - 1] = record;
        others += is_remote(&world, record);
    }
    reach_all(&world, WORLD_FILES, records, places);
    CHECK(places[FAN_REACH_CACHED] == others && others > 0);
    CHECK(places[FAN_REACH_DISK] + others + places[FAN_REACH_NOWHERE] == WORLD_FILES);
    const uint64_t odd[] = {0, WORLD_FILES + 1, UINT64_MAX, UINT64_C(1) << 56};
    reach_all(&world, 4, odd, places);
    CHECK(places[FAN_REACH_NOWHERE] == 4);
    client_close(&client);
    world_close(&world);
}

/* What is to come to the disk comes as one list, of which it is known when it is done. */
static void test_fill_first(void)
{
    struct world world;
    struct world_shape shape = {2, 0, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_MINIO, true, true};
    uint64_t own[WORLD_FILES], count = 0;
    unsigned places[FAN_REACH_NOWHERE + 1];
    world_open(&world, shape, 0);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (world_keeper(&world, record) == 0)
            own[count++] = record;
    }
    reach_all(&world, count, own, places);
    CHECK(places[FAN_REACH_TO_KEEP] == count && count > 0);
    int number = fan_node_fill_first(world.nodes[0], 0, own, count);
    CHECK(number > 0);
    EVENTUALLY(!fan_node_is_filling(world.nodes[0], (uint32_t)number));
    reach_all(&world, count, own, places);
    CHECK(places[FAN_REACH_DISK] == count && world_stats(&world, 0).kept_records == count);
    CHECK(!fan_node_is_filling(world.nodes[0], 12345));
    world_close(&world);
}

int main(void)
{
    test_reach();
    test_fill_first();
    test_brought(FAN_POLICY_CLOSE);
    test_brought(FAN_POLICY_LRU);
    test_brought(FAN_POLICY_MINIO);
    test_share(FAN_POLICY_CLOSE);
    test_share(FAN_POLICY_LRU);
    test_share(FAN_POLICY_MINIO);
    test_share(FAN_POLICY_RANDOM);
    test_share_is_given_back();
    test_line();
    test_joined();
    test_silence();
    test_nonsense();
    test_dead_client();
    test_share_of_disk();
    printf("test_node_hints: no fault\n");
    return 0;
}
