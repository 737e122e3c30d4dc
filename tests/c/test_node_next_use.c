/*
 * Keeping what is used again soonest: the places of records in an order, what the block cache
 * evicts for what (as a replay of the same reads says), and what that saves a node that knows its
 * orders.
 */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../../csrc/node/state/state.h"
#include "../../csrc/policy/holdings.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { ITEMS = 40, EPOCHS = 16, EPOCH_READS = ITEMS / 2, READS = EPOCH_READS * EPOCHS };
enum { EPOCH_FILES = WORLD_FILES / 2, EVENTS_MAX = 2 * READS, LONG_MS = 30000 };

static uint32_t seed = 7;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525 + 1013904223;
    return (seed >> 8) % below;
}

static void shuffle(uint64_t *records, uint32_t count)
{
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = draw(i);
        uint64_t record = records[i - 1];
        records[i - 1] = records[other];
        records[other] = record;
    }
}

/* By looking at every place. */
static uint32_t find_slowly(const uint64_t *records, uint32_t count, uint64_t record, uint32_t from)
{
    while (from < count && records[from] != record)
        from++;
    return from < count ? from : FAN_NO_PLACE;
}

static void test_places(uint32_t count, uint32_t distinct)
{
    enum { MOST = 3000 };
    uint64_t records[MOST] = {0};
    struct fan_places places;
    CHECK(count <= MOST);
    for (uint32_t i = 0; i < count; i++)
        records[i] = UINT64_C(1) << draw(60) | draw(distinct);
    CHECK(fan_places_init(&places, records, count) == 0);
    for (uint32_t passed = 0; passed < count; passed += draw(3)) {
        uint64_t record = draw(4) > 0 ? records[draw(count)] : draw(distinct);
        uint32_t from = passed + draw(20);
        CHECK(fan_places_find(&places, record, passed, from) ==
              find_slowly(records, count, record, from));
    }
    fan_places_fini(&places);
}

static void test_no_places(void)
{
    const uint64_t none[1] = {0};
    struct fan_places places;
    CHECK(fan_places_init(&places, none, 0) == 0);
    CHECK(fan_places_find(&places, 0, 0, 0) == FAN_NO_PLACE);
    fan_places_fini(&places);
    CHECK(fan_places_init(&places, none, UINT64_C(1) << 32) < 0);
}

struct log {
    uint32_t count;
    uint32_t read;
    struct {
        uint32_t read;
        uint32_t item;
        bool came;
    } events[EVENTS_MAX];
};

static void note(void *context, uint32_t item, bool came)
{
    struct log *log = context;
    CHECK(log->count < EVENTS_MAX);
    log->events[log->count].read = log->read;
    log->events[log->count].item = item;
    log->events[log->count++].came = came;
}

/* A cache of blocks of the largest size; what it held when it was last seen. */
struct small_cache {
    struct fan_segment segment;
    struct fan_blockcache blocks;
    struct fan_live live;
    struct fan_eviction eviction;
    bool held[ITEMS];
};

static void look(struct small_cache *cache, struct log *log)
{
    for (int came = 0; came <= 1; came++) {
        for (uint32_t item = 0; item < ITEMS; item++) {
            bool held = fan_blockcache_find(&cache->blocks, item + 1, 0) != FAN_NO_FRAME;
            if (held == cache->held[item] || held != came)
                continue;
            cache->held[item] = held;
            note(log, item, held);
        }
    }
}

static void open_small(struct small_cache *cache, uint64_t bytes)
{
    *cache = (struct small_cache){0};
    CHECK(fan_segment_init(&cache->segment, bytes, bytes, FAN_POLICY_BELADY) == 0);
    CHECK(fan_blockcache_init(&cache->blocks, &cache->segment, FAN_POLICY_BELADY) == 0);
    fan_eviction_init(&cache->eviction, &cache->blocks, &cache->live);
}

static void close_small(struct small_cache *cache)
{
    fan_blockcache_fini(&cache->blocks);
    fan_segment_fini(&cache->segment);
}

static void read_item(struct small_cache *cache, uint32_t item, uint32_t next_use)
{
    struct fan_blockcache *blocks = &cache->blocks;
    uint64_t file = item + 1;
    uint32_t id = fan_blockcache_find(blocks, file, 0);
    if (id != FAN_NO_FRAME) {
        CHECK(*(const uint8_t *)fan_blockcache_data(blocks, id) == (uint8_t)item);
        fan_blockcache_foresee(blocks, file, next_use);
        return;
    }
    id = fan_eviction_begin_fill(
        &cache->eviction,
        &(struct fan_fill){file, 0, FAN_CACHE_BLOCK_BYTES, FAN_FROM_RANK, FAN_DEMAND, next_use});
    CHECK(id != FAN_NO_FRAME);
    memset(fan_blockcache_data(blocks, id), (int)item, FAN_CACHE_BLOCK_BYTES);
    fan_blockcache_fill_done(blocks, id);
    if (!fan_blockcache_stays(blocks, id))
        fan_blockcache_forget(blocks, file, &cache->live);
}

/* Each epoch reads one half of the items, as that of a distributed sampler does. */
static void draw_epochs(uint32_t reads[READS], uint32_t next_uses[READS])
{
    uint64_t items[ITEMS];
    uint32_t next[ITEMS];
    for (uint32_t i = 0; i < ITEMS; i++) {
        items[i] = i;
        next[i] = FAN_NEVER;
    }
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        shuffle(items, ITEMS);
        for (uint32_t i = 0; i < EPOCH_READS; i++)
            reads[epoch * EPOCH_READS + i] = (uint32_t)items[i];
    }
    for (uint32_t read = READS; read-- > 0;) {
        next_uses[read] = next[reads[read]];
        next[reads[read]] = read;
    }
}

/* Opens a cache of half the size, which then grows; all it has room for can be written. */
static void open_growing(struct small_cache *cache, uint64_t bytes)
{
    *cache = (struct small_cache){0};
    CHECK(fan_segment_init(&cache->segment, bytes / 2, bytes, FAN_POLICY_BELADY) == 0);
    CHECK(fan_blockcache_init(&cache->blocks, &cache->segment, FAN_POLICY_BELADY) == 0);
    fan_eviction_init(&cache->eviction, &cache->blocks, &cache->live);
    uint32_t before = cache->segment.entry_count;
    fan_blockcache_grow(&cache->blocks, bytes);
    CHECK(cache->segment.entry_count == cache->segment.most && cache->segment.most > before);
    fan_blockcache_grow(&cache->blocks, bytes);
    CHECK(cache->segment.entry_count == cache->segment.most);
}

/* What comes and goes is what a replay says, as far as nothing is kept that is never used again. */
static void test_as_replayed(void (*open)(struct small_cache *, uint64_t))
{
    static struct log live, replayed;
    static struct small_cache cache;
    static uint32_t reads[READS], next_uses[READS];
    struct fan_holdings holdings;
    draw_epochs(reads, next_uses);
    live = replayed = (struct log){0};
    open(&cache, 16 << 20);
    uint32_t room = cache.blocks.areas[0].count / FAN_GRANULES_RUN_MAX;
    const struct fan_items items = {.item_bytes = 1, .count = ITEMS};
    CHECK(room > 4 && room < ITEMS / 2);
    CHECK(fan_holdings_init(&holdings, FAN_POLICY_BELADY, &items, ITEMS, room) == 0);
    holdings.log = note;
    holdings.log_context = &replayed;
    for (uint32_t read = 0; read < READS && next_uses[read] != FAN_NEVER; read++) {
        live.read = replayed.read = read;
        read_item(&cache, reads[read], next_uses[read]);
        look(&cache, &live);
        fan_holdings_read(&holdings, reads[read], next_uses[read], false);
    }
    CHECK(live.count == replayed.count && live.count > READS / 8);
    for (uint32_t i = 0; i < live.count; i++)
        CHECK(memcmp(&live.events[i], &replayed.events[i], sizeof(live.events[i])) == 0);
    fan_holdings_fini(&holdings);
    close_small(&cache);
}

/* Returns how many blocks stay and may go, and the highest of their keys in `latest`; 0: there is
 * none. */
static uint32_t count_staying(const struct fan_blockcache *blocks, uint32_t *latest)
{
    uint32_t count = 0;
    *latest = 0;
    for (uint32_t id = 0; id < blocks->segment->entry_count; id++) {
        if (!fan_staying_has(blocks, id))
            continue;
        count++;
        *latest = blocks->frames[id].key > *latest ? blocks->frames[id].key : *latest;
    }
    return count;
}

/* Blocks of all sizes, some of them awaited, some used by others: nothing goes for a block that is
 * used later, and all that is awaited stays. */
static void test_sizes(uint64_t cache_bytes)
{
    enum { FILES = 400, STEPS = 20000 };
    static struct small_cache cache;
    struct fan_blockcache *blocks = &cache.blocks;
    bool awaited[FILES + 1] = {false};
    open_small(&cache, cache_bytes);
    for (uint32_t step = 0; step < STEPS; step++) {
        uint32_t file = 1 + draw(FILES), next_use = draw(3) > 0 ? step + draw(STEPS) : FAN_NEVER;
        uint32_t id = fan_blockcache_find(blocks, file, 0);
        CHECK(id != FAN_NO_FRAME || !awaited[file]);
        if (id == FAN_NO_FRAME) {
            const struct fan_fill fill = {file,
                                          0,
                                          1 + draw(FAN_CACHE_BLOCK_BYTES >> draw(9)),
                                          draw(FAN_SOURCES),
                                          FAN_DEMAND,
                                          next_use,
                                          .replaces = draw(4) == 0};
            uint32_t latest, now, key = fan_staying_key(fill.source, next_use);
            uint32_t before = count_staying(blocks, &latest);
            id = fan_eviction_begin_fill(&cache.eviction, &fill);
            CHECK(count_staying(blocks, &now) == before || latest > key);
            CHECK(id != FAN_NO_FRAME || fill.replaces);
            if (id == FAN_NO_FRAME)
                continue;
            CHECK(!fill.replaces || blocks->frames[id].area == FAN_AREA_STAYING);
            fan_blockcache_fill_done(blocks, id);
        } else if (awaited[file]) {
            fan_blockcache_unawait(blocks, id);
            awaited[file] = false;
        } else if (fan_blockcache_stays(blocks, id) && draw(8) == 0) {
            fan_blockcache_await(blocks, id);
            awaited[file] = true;
        } else if (draw(4) == 0) {
            blocks->segment->entries[id].touched = 1;
        } else {
            fan_blockcache_foresee(blocks, file, next_use);
        }
        if (!fan_blockcache_stays(blocks, id))
            fan_blockcache_forget(blocks, file, &cache.live);
    }
    close_small(&cache);
}

static bool is_quiet(const struct world *world)
{
    return world_stats(world, 0).outstanding == 0;
}

/* A node that knows the order of this epoch and the next gives right bytes. */
static void test_epochs(uint64_t cache_bytes)
{
    struct world world;
    struct node_client client;
    uint64_t orders[EPOCHS][EPOCH_FILES], records[WORLD_FILES];
    int64_t current, next;
    seed = 11;
    for (uint64_t i = 0; i < WORLD_FILES; i++)
        records[i] = i + 1;
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        shuffle(records, WORLD_FILES);
        memcpy(orders[epoch], records, sizeof(orders[epoch]));
    }
    world_open(&world, (struct world_shape){4, 1, cache_bytes, LONG_MS, FAN_POLICY_BELADY}, 0);
    client_open(&client, world.nodes[0]);
    next = fan_node_order_begin(world.nodes[0], 0, orders[0], EPOCH_FILES, 0);
    for (uint32_t epoch = 0; epoch < EPOCHS; epoch++) {
        current = next;
        if (epoch + 1 < EPOCHS)
            next = fan_node_order_begin(world.nodes[0], 0, orders[epoch + 1], EPOCH_FILES,
                                        (uint64_t)current);
        for (uint64_t i = 0; i < EPOCH_FILES; i++) {
            EVENTUALLY(is_quiet(&world));
            if (!world_has(&world, 0, world_file_pack(orders[epoch][i])))
                CHECK(client_read(&client, 0, orders[epoch][i]) == 0);
            CHECK(fan_node_order_pass(world.nodes[0], (uint64_t)current, i + 1) == 0);
        }
        CHECK(fan_node_order_end(world.nodes[0], (uint64_t)current) == 0);
    }
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.failures == 0);
    client_close(&client);
    world_close(&world);
}

/* A file is fetched for one of two loaders: the other one's use still counts, and it will fetch the
 * file itself if that is gone by then. */
static void test_two_loaders(void)
{
    enum { COUNT = 4 };
    const uint64_t records[2][COUNT] = {{1, 2, 3, 4}, {3, 1, 4, 2}};
    struct fan_order *loaders[2];
    struct world world;
    world_open(&world, (struct world_shape){1, 1, WORLD_TINY_BYTES, LONG_MS, FAN_POLICY_BELADY}, 0);
    const struct fan_next_uses *uses = &world.nodes[0]->orders.uses; /* its thread runs */
    struct fan_orders orders = {.uses = {.cache = uses->cache, .mounts = uses->mounts}};
    for (int i = 0; i < 2; i++) {
        loaders[i] = fan_order_make(0, records[i], COUNT, COUNT);
        CHECK(loaders[i] != NULL);
        fan_queue_put(&orders.turns, &loaders[i]->turn.link);
    }
    CHECK(fan_next_use_of(&orders, fan_cache_file(0, 2), false) == 1);
    CHECK(fan_next_use_of(&orders, fan_cache_file(0, 2), true) == 3);
    CHECK(fan_next_use_of(&orders, fan_cache_file(0, 3), true) == 2);
    CHECK(fan_next_use_of(&orders, fan_cache_file(0, 4), true) == 3);
    CHECK(fan_next_use_of(&orders, fan_cache_file(0, 5), true) == FAN_NEVER);
    fan_orders_note_want(&orders, fan_cache_file(0, 3));
    CHECK(fan_order_is_wanted(loaders[1], 0) && !fan_order_is_wanted(loaders[0], 2));
    loaders[0]->next = 3; /* record 1 is under way for the first loader, which waits for it now */
    CHECK(fan_next_use_of(&orders, fan_cache_file(0, 1), true) == 1);
    fan_orders_note_want(&orders, fan_cache_file(0, 1));
    CHECK(!fan_order_is_wanted(loaders[1], 1));
    /* The second loader reads much later. What is read then goes for a block that comes ahead, but
     * not for one that nobody reads again. */
    loaders[0]->next = COUNT;
    loaders[1]->begins = 1 << 20;
    uint64_t bytes = FAN_CACHE_GRANULE_BYTES;
    uint32_t late = fan_next_use_late(&orders, loaders[0], bytes);
    CHECK(late > COUNT && late < 1 << 20);
    CHECK(fan_next_use_late(&orders, loaders[0], 2 * bytes) == COUNT + (late - COUNT) / 2);
    CHECK(fan_next_use_of(&orders, fan_cache_file(0, 2), false) == (1 << 20) + 3);
    CHECK(fan_next_use_ahead(&orders, fan_cache_file(0, 2), bytes) == late);
    CHECK(fan_next_use_ahead(&orders, fan_cache_file(0, 5), bytes) == FAN_NEVER);
    loaders[1]->begins = 0;
    CHECK(fan_next_use_ahead(&orders, fan_cache_file(0, 2), bytes) == 3);
    fan_orders_fini(&orders);
    world_close(&world);
}

int main(void)
{
    test_no_places();
    test_places(1, 1);
    test_places(3000, 2000);
    test_places(3000, 3);
    test_as_replayed(open_small);
    test_as_replayed(open_growing);
    test_sizes(WORLD_TINY_BYTES);
    test_sizes(WORLD_TINY_BYTES + 123456);
    test_sizes(2 * WORLD_TINY_BYTES);
    test_two_loaders();
    test_epochs(WORLD_TINY_BYTES);
    test_epochs(2 * WORLD_TINY_BYTES);
    test_epochs(WORLD_LARGE_BYTES);
    printf("test_node_next_use: no fault\n");
}
