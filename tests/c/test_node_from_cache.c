/* What the ranks keep of a dataset in their block caches: a block is read from the shared file
 * system once in all, by the rank that keeps it, and comes to the others from there. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "node_client.h"
#include "node_world.h"

enum { RANKS = 3, LONG_MS = 30000, SHORT_MS = 300 };

static atomic_bool gone; /* the shared file system gives nothing */

/* Takes the place of libc's. */
ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    if (atomic_load(&gone))
        return errno = EIO, -1;
    return (ssize_t)syscall(SYS_pread64, fd, to, bytes, offset);
}

static void open_world(struct world *world, struct node_client clients[RANKS], uint64_t cache_bytes,
                       uint64_t deadline_ms)
{
    struct world_shape shape = {RANKS, 0,    cache_bytes, deadline_ms, FAN_POLICY_BELADY,
                                true,  true, true};
    world_open(world, shape, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        client_open(&clients[rank], world->nodes[rank]);
}

static void close_world(struct world *world, struct node_client clients[RANKS])
{
    for (uint32_t rank = 0; rank < RANKS; rank++)
        client_close(&clients[rank]);
    world_close(world);
}

static uint64_t read_of_shared(const struct world *world)
{
    uint64_t bytes = 0;
    for (uint32_t rank = 0; rank < RANKS; rank++)
        bytes += world_stats(world, rank).shared_bytes;
    return bytes;
}

static uint64_t total_bytes(void)
{
    uint64_t bytes = 0;
    for (uint64_t record = 1; record <= WORLD_FILES; record++)
        bytes += world_file_bytes(record);
    return bytes;
}

static void test_read_once(void)
{
    struct world world;
    struct node_client clients[RANKS];
    open_world(&world, clients, WORLD_LARGE_BYTES, LONG_MS);
    for (unsigned round = 0; round < 2; round++) {
        for (uint64_t record = 1; record <= WORLD_FILES; record++) {
            for (uint32_t rank = 0; rank < RANKS; rank++)
                CHECK(client_read(&clients[(record + rank) % RANKS], 0, record) == 0);
        }
        CHECK(read_of_shared(&world) == total_bytes());
    }
    atomic_store(&gone, true);
    for (uint64_t record = 1; record <= WORLD_FILES; record++)
        CHECK(client_read(&clients[record % RANKS], 0, record) == 0);
    atomic_store(&gone, false);
    close_world(&world, clients);
}

/* All ask at once for what nobody has; each gets it, and it is read once. */
static void test_asked_at_once(void)
{
    struct world world;
    struct node_client clients[RANKS];
    open_world(&world, clients, WORLD_LARGE_BYTES, LONG_MS);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        uint64_t file = fan_cache_file(0, record);
        for (uint32_t rank = 0; rank < RANKS; rank++)
            client_want(&clients[rank], 0, file, 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            CHECK(client_wait(&clients[rank], 0) == 0);
            client_compare(&clients[rank], 0, record, 0);
            client_unpin(&clients[rank], 0);
        }
    }
    CHECK(read_of_shared(&world) <= total_bytes());
    close_world(&world, clients);
}

static void expect(struct node_client *client, uint64_t record, uint64_t block,
                   struct fan_piece piece)
{
    client_want_part(client, 0, record, block, piece.from, piece.count);
    CHECK(client_wait(client, 0) == 0);
    struct fan_piece got = client_compare_part(client, 0, record, block);
    CHECK(got.from == piece.from && got.count == piece.count);
    client_unpin(client, 0);
}

/* The rank that keeps a file gives pieces of what it has, a block or a piece, and reads of the
 * shared file system what it has not. */
static void test_pieces(void)
{
    struct world world;
    struct node_client clients[RANKS];
    open_world(&world, clients, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = 1;
    while (world_file_bytes(record) <= 3 * FAN_CACHE_BLOCK_BYTES)
        record++;
    uint32_t keeper = world_keeper(&world, record);
    struct node_client *one = &clients[(keeper + 1) % RANKS], *two = &clients[(keeper + 2) % RANKS];
    expect(one, record, 1, (struct fan_piece){20, 4});
    CHECK(read_of_shared(&world) == 4 * FAN_CACHE_GRANULE_BYTES);
    expect(two, record, 1, (struct fan_piece){21, 2});
    expect(&clients[keeper], record, 1, (struct fan_piece){20, 4});
    CHECK(read_of_shared(&world) == 4 * FAN_CACHE_GRANULE_BYTES);
    CHECK(client_pin(one, 0, fan_cache_file(0, record), 2) == 0);
    client_compare(one, 0, record, 2);
    client_unpin(one, 0);
    expect(two, record, 2, (struct fan_piece){250, 6});
    expect(two, record, 2, (struct fan_piece){0, 1});
    CHECK(read_of_shared(&world) == FAN_CACHE_BLOCK_BYTES + 4 * FAN_CACHE_GRANULE_BYTES);
    close_world(&world, clients);
}

/* Caches that hold hardly anything: blocks are evicted while others ask for them. */
static void test_no_room(void)
{
    struct world world;
    struct node_client clients[RANKS];
    open_world(&world, clients, WORLD_TINY_BYTES, LONG_MS);
    for (uint64_t i = 0; i < 6 * WORLD_FILES; i++) {
        uint64_t record = 1 + i * 7 % WORLD_FILES;
        for (uint32_t rank = 0; rank < RANKS; rank++)
            client_want(&clients[rank], 0, fan_cache_file(0, record), 0);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            CHECK(client_wait(&clients[rank], 0) == 0);
            client_compare(&clients[rank], 0, record, 0);
            client_unpin(&clients[rank], 0);
        }
    }
    for (uint32_t rank = 0; rank < RANKS; rank++)
        CHECK(world_stats(&world, rank).failures == 0);
    close_world(&world, clients);
}

static uint64_t kept_by(const struct world *world, uint32_t rank)
{
    uint64_t record = 1;
    while (world_keeper(world, record) != rank || world_file_bytes(record) > 1000000)
        record++;
    return record;
}

/* What the shared file system does not give to the rank that keeps it is an error for all; it is
 * read when that is over. */
static void test_gone(void)
{
    struct world world;
    struct node_client clients[RANKS];
    open_world(&world, clients, WORLD_LARGE_BYTES, LONG_MS);
    uint64_t record = kept_by(&world, 1);
    atomic_store(&gone, true);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        CHECK(client_read(&clients[rank], 0, record) < 0);
    atomic_store(&gone, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
        CHECK(client_read(&clients[rank], 0, record) == 0);
    close_world(&world, clients);
}

/* A rank that says nothing, or is lost, is gone round: the others read the shared file system. */
static void test_keeper_is_away(void)
{
    struct world world;
    struct node_client clients[RANKS];
    open_world(&world, clients, WORLD_LARGE_BYTES, SHORT_MS);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    CHECK(client_read(&clients[0], 0, kept_by(&world, 1)) == 0);
    CHECK(world_stats(&world, 0).shared_bytes == world_file_bytes(kept_by(&world, 1)));
    fan_node_lose(world.nodes[2], 1);
    CHECK(client_read(&clients[2], 0, kept_by(&world, 1)) == 0);
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    close_world(&world, clients);
}

int main(void)
{
    test_read_once();
    test_asked_at_once();
    test_pieces();
    test_no_room();
    test_gone();
    test_keeper_is_away();
    printf("test_node_from_cache: no fault\n");
}
