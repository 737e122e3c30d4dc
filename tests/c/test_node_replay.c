/*
 * What the cache of a live node takes and lets go, and when, is what a replay of the same reads
 * says: under each policy of the node daemon. The node takes its turns by a clock of the test's
 * own.
 *
 * Both have the same room: all blocks take a run of the same length, so none is left between them.
 * Clients ask the daemon for every block; what they find by themselves it learns of only when it
 * looks for room, so that `lru` then lets go what a replay keeps. Under `minio` a replay knows what
 * stays; what passes through the node's other area is left out. `belady` is the same where no order
 * is known (test_node_next_use has the other case).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../../csrc/node/state/state.h"
#include "../../csrc/node/thread.h"
#include "../../csrc/policy/holdings.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { RANKS = 4, BLOCKS_A_FILE = 3, ITEMS_MAX = 32, READS = 500, LONG_MS = 30000 };
enum { EVENTS_MAX = 2 * READS, TURN_NS = 2000000 }; /* longer than the node waits between looks */

struct item {
    uint64_t record;
    uint64_t block;
};

struct event {
    uint32_t read;
    uint32_t item;
    bool came;
};

struct log {
    struct event events[EVENTS_MAX];
    uint32_t count;
    uint32_t read;
};

static void note(void *context, uint32_t item, bool came)
{
    struct log *log = context;
    CHECK(log->count < EVENTS_MAX);
    log->events[log->count++] = (struct event){log->read, item, came};
}

/* A node under test with the blocks that are read of it, and what was in its cache when last seen.
 * There is a client for each block of a file: none reads from front to back, and has what follows
 * brought ahead. */
struct live {
    struct world world;
    struct node_client clients[BLOCKS_A_FILE];
    struct item items[ITEMS_MAX];
    uint32_t item_count;
    bool held[ITEMS_MAX];
    uint64_t now_ns;
    struct log *log;
};

/* All blocks that take a whole run of granules, of packs that rank 0 has not. */
static void find_items(struct live *live)
{
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        uint64_t bytes = world_file_bytes(record);
        for (uint64_t block = 0; (block + 1) * FAN_CACHE_BLOCK_BYTES < bytes + 4096; block++) {
            if (world_has(&live->world, 0, world_file_pack(record)))
                continue;
            CHECK(live->item_count < ITEMS_MAX && block < BLOCKS_A_FILE);
            live->items[live->item_count++] = (struct item){record, block};
        }
    }
}

static void open_live(struct live *live, enum fan_policy policy, struct log *log)
{
    *live = (struct live){.log = log};
    world_open(&live->world, (struct world_shape){RANKS, 1, WORLD_TINY_BYTES, LONG_MS, policy}, 1);
    world_open_still(&live->world, 0);
    for (uint32_t i = 0; i < BLOCKS_A_FILE; i++)
        client_open(&live->clients[i], live->world.nodes[0]);
    find_items(live);
}

static void close_live(struct live *live)
{
    for (uint32_t i = 0; i < BLOCKS_A_FILE; i++)
        client_close(&live->clients[i]);
    world_close(&live->world);
}

static bool has(const struct live *live, const struct item *item)
{
    const struct fan_blockcache *cache = &live->world.nodes[0]->cache;
    uint32_t id = fan_blockcache_find(cache, fan_cache_file(0, item->record), item->block);
    return id != FAN_NO_FRAME && (cache->areas[1].count == 0 || cache->frames[id].area == 0);
}

/* Notes what came and went since this was last called: what went first, to make room. */
static void look(struct live *live)
{
    for (int came = 0; came <= 1; came++) {
        for (uint32_t i = 0; i < live->item_count; i++) {
            bool held = has(live, &live->items[i]);
            if (held == live->held[i] || held != came)
                continue;
            live->held[i] = held;
            note(live->log, i, held);
        }
    }
}

static void turn(struct live *live, uint64_t passing_ns)
{
    live->now_ns += passing_ns;
    fan_node_turn(live->world.nodes[0], live->now_ns);
}

/* Opens a file, reads a block of it, and closes it. */
static void read_live(struct live *live, uint32_t number)
{
    const struct item *item = &live->items[number];
    struct node_client *client = &live->clients[item->block];
    struct fan_pin *pin = &client->session->pins[0];
    uint64_t file = fan_cache_file(0, item->record);
    unsigned place = client_note(client, file);
    client_want(client, 0, file, item->block);
    turn(live, TURN_NS);
    EVENTUALLY((turn(live, 0), __atomic_load_n(&pin->state, __ATOMIC_SEQ_CST) != FAN_PIN_WANTED));
    CHECK(client_wait(client, 0) == 0);
    client_compare(client, 0, item->record, item->block);
    look(live);
    client_unpin(client, 0);
    client_drop(client, place);
    turn(live, TURN_NS);
    look(live);
}

/* How many blocks the node has room for; under minio, that stay. */
static uint32_t room_of(const struct live *live)
{
    return live->world.nodes[0]->cache.areas[0].count / FAN_GRANULES_RUN_MAX;
}

static void draw(uint32_t reads[READS], uint32_t item_count)
{
    uint32_t seed = 21;
    for (uint32_t read = 0; read < READS; read++) {
        seed = seed * 1664525 + 1013904223;
        reads[read] = (seed >> 8) % item_count;
    }
}

static void replay(const uint32_t reads[READS], const struct live *live, struct log *log)
{
    const struct fan_items items = {.item_bytes = 1, .count = live->item_count};
    struct fan_holdings holdings;
    enum fan_policy policy = live->world.shape.policy;
    policy = policy == FAN_POLICY_BELADY ? FAN_POLICY_MINIO : policy;
    CHECK(fan_holdings_init(&holdings, policy, &items, live->item_count, room_of(live)) == 0);
    holdings.log = note;
    holdings.log_context = log;
    for (log->read = 0; log->read < READS; log->read++)
        fan_holdings_read(&holdings, reads[log->read], 0, false);
    fan_holdings_fini(&holdings);
}

static uint32_t gone(const struct log *log)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < log->count; i++)
        count += !log->events[i].came;
    return count;
}

static void test_policy(enum fan_policy policy)
{
    static struct log live_log, replay_log;
    static struct live live;
    uint32_t reads[READS];
    live_log.count = replay_log.count = 0;
    open_live(&live, policy, &live_log);
    draw(reads, live.item_count);
    for (live_log.read = 0; live_log.read < READS; live_log.read++)
        read_live(&live, reads[live_log.read]);
    replay(reads, &live, &replay_log);
    CHECK(room_of(&live) < live.item_count && live_log.count >= room_of(&live));
    bool stays = policy == FAN_POLICY_MINIO || policy == FAN_POLICY_BELADY;
    CHECK(stays ? gone(&live_log) == 0 : gone(&live_log) > READS / 20);
    for (uint32_t i = 0; i < live_log.count && i < replay_log.count; i++) {
        const struct event *a = &live_log.events[i], *b = &replay_log.events[i];
        CHECK(a->read == b->read && a->item == b->item && a->came == b->came);
    }
    CHECK(live_log.count == replay_log.count);
    close_live(&live);
}

int main(void)
{
    for (int policy = FAN_POLICY_CLOSE; policy < FAN_POLICY_COUNT; policy++)
        test_policy((enum fan_policy)policy);
    test_policy(FAN_POLICY_BELADY);
    printf("test_node_replay: no fault\n");
    return 0;
}
