/* Prefetching in a known order: what is there before it is wanted, how much of it, and what a
 * wrong, passed or ended order leaves behind. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

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

static bool is_remote(const struct world *world, uint64_t record)
{
    return world_file_bytes(record) > 0 && !world_has(world, 0, world_file_pack(record));
}

static bool is_quiet(const struct world *world)
{
    return world_stats(world, 0).outstanding == 0;
}

/* All files, `rounds` times, from some file on: how many, and the bytes of the remote ones of one
 * round. */
static uint64_t list(const struct world *world, uint64_t *records, unsigned rounds, uint64_t *bytes)
{
    uint64_t count = 0;
    *bytes = 0;
    for (unsigned round = 0; round < rounds; round++) {
        for (uint64_t i = 0; i < WORLD_FILES; i++) {
            records[count] = 1 + (i * 7 + round) % WORLD_FILES;
            if (round == 0 && is_remote(world, records[count]))
                *bytes += world_file_bytes(records[count]);
            count++;
        }
    }
    return count;
}

/* Where all has room all is there before it is read, and nobody is asked a second time. */
static void test_brought(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], bytes;
    open_two(&world, &client, 4 * (uint64_t)WORLD_LARGE_BYTES, policy);
    uint64_t id = world_begin_order(&world, records, list(&world, records, 1, &bytes));
    EVENTUALLY(world_stats(&world, 0).fetched_bytes == bytes && is_quiet(&world));
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    for (uint64_t i = 0; i < WORLD_FILES; i++) {
        if (is_remote(&world, records[i]))
            CHECK(client_read(&client, 0, records[i]) == 0);
        CHECK(fan_node_order_pass(world.nodes[0], id, i + 1) == 0);
    }
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.fetched_bytes == bytes && stats.ahead_bytes == bytes);
    CHECK(stats.ahead_unread_bytes == 0 && stats.ahead_late == 0);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    if (policy == FAN_POLICY_CLOSE)
        EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    client_close(&client);
    world_close(&world);
}

/* Where little has room the window moves with the reader, which gets right bytes. */
static void test_window(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    uint64_t records[3 * WORLD_FILES], bytes;
    open_two(&world, &client, WORLD_TINY_BYTES, policy);
    uint64_t count = list(&world, records, 3, &bytes),
             id = world_begin_order(&world, records, count);
    for (uint64_t i = 0; i < count; i++) {
        EVENTUALLY(is_quiet(&world));
        if (is_remote(&world, records[i]))
            CHECK(client_read(&client, 0, records[i]) == 0);
        CHECK(fan_node_order_pass(world.nodes[0], id, i + 1) == 0);
    }
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.ahead_bytes > 0 && stats.failures == 0);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    CHECK(fan_node_order_end(world.nodes[0], id) == -EINVAL);
    client_close(&client);
    world_close(&world);
}

/* What was brought for nothing goes when it is passed, and is counted. */
static void test_wrong(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], bytes;
    open_two(&world, &client, 4 * (uint64_t)WORLD_LARGE_BYTES, FAN_POLICY_CLOSE);
    uint64_t id = world_begin_order(&world, records, list(&world, records, 1, &bytes));
    EVENTUALLY(world_stats(&world, 0).fetched_bytes == bytes && is_quiet(&world));
    CHECK(fan_node_order_pass(world.nodes[0], id, UINT64_MAX) == 0);
    CHECK(world_stats(&world, 0).ahead_unread_bytes == bytes);
    EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    client_close(&client);
    world_close(&world);
}

/* An order that ends while its blocks are on their way leaves none of them. */
static void test_ended_early(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], bytes;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_CLOSE);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    uint64_t id = world_begin_order(&world, records, list(&world, records, 1, &bytes));
    EVENTUALLY(world_stats(&world, 0).ahead > 0);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    EVENTUALLY(is_quiet(&world));
    EVENTUALLY(world_stats(&world, 0).resident_bytes == 0);
    client_close(&client);
    world_close(&world);
}

/* A demand finds room beside a window that is full and that nobody reads. */
static void test_demand(enum fan_policy policy)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], bytes;
    open_two(&world, &client, WORLD_TINY_BYTES, policy);
    uint64_t first = world_begin_order(&world, records, list(&world, records, 1, &bytes));
    uint64_t second = world_begin_order(&world, records, WORLD_FILES);
    EVENTUALLY(world_stats(&world, 0).ahead > 0 && is_quiet(&world));
    for (uint64_t record = WORLD_FILES; record > 0; record--) {
        if (is_remote(&world, record))
            CHECK(client_read(&client, 0, record) == 0);
    }
    CHECK(fan_node_order_end(world.nodes[0], first) == 0);
    CHECK(fan_node_order_end(world.nodes[0], second) == 0);
    CHECK(world_stats(&world, 0).failures == 0);
    client_close(&client);
    world_close(&world);
}

/* Two orders that share files; one ends, and what the other wants of them is there all the same. */
static void test_two(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], bytes;
    open_two(&world, &client, 4 * (uint64_t)WORLD_LARGE_BYTES, FAN_POLICY_LRU);
    uint64_t first = world_begin_order(&world, records, list(&world, records, 1, &bytes));
    uint64_t second = world_begin_order(&world, records, WORLD_FILES);
    EVENTUALLY(world_stats(&world, 0).fetched_bytes == bytes && is_quiet(&world));
    CHECK(fan_node_order_end(world.nodes[0], first) == 0);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    for (uint64_t i = 0; i < WORLD_FILES; i++) {
        if (is_remote(&world, records[i]))
            CHECK(client_read(&client, 0, records[i]) == 0);
    }
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    CHECK(fan_node_order_end(world.nodes[0], second) == 0);
    client_close(&client);
    world_close(&world);
}

/* A rank that says nothing is no late one for that, and what it has is wanted in vain, or comes. */
static void test_silence(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], bytes;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, SHORT_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    uint64_t id = world_begin_order(&world, records, list(&world, records, 1, &bytes));
    EVENTUALLY(world_stats(&world, 0).timeouts > 0);
    CHECK(!fan_node_is_late(world.nodes[0], 1));
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    EVENTUALLY(is_quiet(&world));
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    CHECK(client_read(&client, 0, world_remote_file(&world)) == 0);
    client_close(&client);
    world_close(&world);
}

/* Somebody waits in vain for what a rank was asked ahead: where it said nothing at all since, it is
 * late, so that the next one asks elsewhere. */
static void test_dead(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], bytes;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, SHORT_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    uint64_t first = 0, count = list(&world, records, 1, &bytes);
    while (!is_remote(&world, records[first]))
        first++;
    uint64_t id = world_begin_order(&world, records + first, count - first);
    EVENTUALLY(world_stats(&world, 0).ahead > 0);
    client_want(&client, 0, fan_cache_file(0, records[first]), 0);
    EVENTUALLY(fan_node_is_late(world.nodes[0], 1));
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    client_wait(&client, 0);
    client_unpin(&client, 0);
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    EVENTUALLY(is_quiet(&world));
    client_close(&client);
    world_close(&world);
}

/* An order behind another one is brought when all of that was, each file once. */
static void test_behind(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], later[1] = {0}, bytes, first_bytes = 0;
    open_two(&world, &client, WORLD_TINY_BYTES, FAN_POLICY_CLOSE);
    uint64_t all = list(&world, records, 1, &bytes), count = all - WORLD_FILES / 4;
    for (uint64_t i = count; i < all; i++)
        later[0] = is_remote(&world, records[i]) ? records[i] : later[0];
    for (uint64_t i = 0; i < count; i++)
        first_bytes += is_remote(&world, records[i]) ? world_file_bytes(records[i]) : 0;
    CHECK(later[0] != 0 && first_bytes > WORLD_TINY_BYTES);
    uint64_t first = world_begin_order(&world, records, count);
    int64_t second = fan_node_order_begin(world.nodes[0], 0, later, 1, first);
    CHECK(second > 0);
    for (uint64_t i = 0; i < count; i++) {
        if (is_remote(&world, records[i]))
            CHECK(client_read(&client, 0, records[i]) == 0);
        CHECK(fan_node_order_pass(world.nodes[0], first, i + 1) == 0);
    }
    uint64_t brought = first_bytes + world_file_bytes(later[0]);
    EVENTUALLY(is_quiet(&world) && world_stats(&world, 0).fetched_bytes == brought);
    CHECK(world_stats(&world, 0).ahead_bytes >= world_file_bytes(later[0]));
    CHECK(fan_node_order_end(world.nodes[0], first) == 0);
    CHECK(fan_node_order_end(world.nodes[0], (uint64_t)second) == 0);
    client_close(&client);
    world_close(&world);
}

static void test_nonsense(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_LRU);
    const uint64_t odd[] = {0, world_remote_file(&world), UINT32_MAX, UINT64_MAX};
    struct fan_node *node = world.nodes[0];
    CHECK(fan_node_order_begin(node, 9, odd, 2, 0) == -EINVAL);
    CHECK(fan_node_order_begin(node, 0, odd, 3, 0) == -EINVAL);
    CHECK(fan_node_order_begin(node, 0, odd + 3, 1, 0) == -EINVAL);
    CHECK(fan_node_order_pass(node, 1, 1) == -EINVAL && fan_node_order_end(node, 1) == -EINVAL);
    uint64_t empty = world_begin_order(&world, odd, 0), id = world_begin_order(&world, odd, 2);
    EVENTUALLY(world_stats(&world, 0).ahead == 1 && is_quiet(&world));
    CHECK(fan_node_order_pass(node, empty, 0) == 0 && fan_node_order_end(node, empty) == 0);
    CHECK(fan_node_order_pass(node, id, 2) == 0 && fan_node_order_pass(node, id, 1) == 0);
    client_close(&client);
    world_close(&world);
}

/* Files of this rank's share come to its disk; what another rank keeps it brings to its own. */
static void test_share_of_disk(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[WORLD_FILES], count = 0, own = 0;
    struct world_shape shape = {2, 0, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_MINIO, true, true};
    world_open(&world, shape, 0);
    client_open(&client, world.nodes[0]);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (world_keeper(&world, record) == 0)
            own++;
        if (world_keeper(&world, record) < 2)
            records[count++] = record;
    }
    uint64_t id = world_begin_order(&world, records, count);
    EVENTUALLY(world_stats(&world, 0).kept_records == own);
    EVENTUALLY(world_stats(&world, 1).kept_records > 0 && is_quiet(&world));
    CHECK(fan_node_order_end(world.nodes[0], id) == 0);
    client_close(&client);
    world_close(&world);
}

/* A rank that needs nothing more says so when what it asked ahead has come: who is told may end. */
static void test_finish(void)
{
    struct world world;
    struct node_client client;
    uint64_t records[50 * WORLD_FILES], bytes;
    open_two(&world, &client, WORLD_LARGE_BYTES, FAN_POLICY_CLOSE);
    atomic_store(&world_knobs(&world, 1)->delay_us, 100000);
    world_begin_order(&world, records, list(&world, records, 50, &bytes));
    EVENTUALLY(!is_quiet(&world));
    EVENTUALLY(fan_node_finish(world.nodes[0]) + fan_node_finish(world.nodes[1]) == 0);
    CHECK(is_quiet(&world));
    CHECK(fan_node_stop(world.nodes[1]) == 0 && fan_node_stop(world.nodes[0]) == 0);
    client_close(&client);
    world_close(&world);
}

int main(void)
{
    const enum fan_policy policies[] = {FAN_POLICY_CLOSE, FAN_POLICY_LRU, FAN_POLICY_RANDOM,
                                        FAN_POLICY_MINIO, FAN_POLICY_BELADY};
    for (unsigned i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
        test_brought(policies[i]);
        test_window(policies[i]);
        test_demand(policies[i]);
    }
    test_wrong();
    test_ended_early();
    test_two();
    test_silence();
    test_dead();
    test_behind();
    test_finish();
    test_nonsense();
    test_share_of_disk();
    printf("test_node_prefetch: no fault\n");
    return 0;
}
