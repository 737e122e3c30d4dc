/* Disks that are slow, fail or hang: reading for one rank holds nothing else up. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../csrc/format/trace_format.h"
#include "../../csrc/node/foresight/orders.h"
#include "../../csrc/node/storage/readers.h"
#include "check.h"
#include "node_client.h"
#include "node_world.h"

#ifndef MADV_POPULATE_READ
#    define MADV_POPULATE_READ 22
#endif

enum { LONG_MS = 30000, COLD_BYTES = 131072 };

/* The disk. all_cold: nothing is in memory; else files of COLD_BYTES are not. hangs: whoever reads
 * what is cold waits until this is false. fails: what is cold cannot be read. waiting: how many
 * wait now. */
static atomic_bool all_cold, hangs, fails;
static atomic_int waiting;

/* How often pages were read, and their bytes. */
static atomic_uint reads;
static atomic_size_t read_bytes;

static bool is_cold(size_t bytes)
{
    return atomic_load(&all_cold) || (bytes >= COLD_BYTES && bytes < COLD_BYTES + 8192);
}

/* Takes the place of libc's: says which pages of a pack are in memory. */
int mincore(void *start, size_t bytes, unsigned char *resident)
{
    (void)start;
    memset(resident, !is_cold(bytes), (bytes + 4095) / 4096);
    return 0;
}

/* Takes the place of libc's: reads pages of a pack, from the disk described above. */
int madvise(void *start, size_t bytes, int advice)
{
    if (advice != MADV_POPULATE_READ || !is_cold(bytes))
        return (int)syscall(SYS_madvise, start, bytes, advice);
    atomic_fetch_add(&reads, 1);
    atomic_fetch_add(&read_bytes, bytes);
    atomic_fetch_add(&waiting, 1);
    while (atomic_load(&hangs))
        pause_ms(1);
    atomic_fetch_sub(&waiting, 1);
    if (!atomic_load(&fails))
        return 0;
    errno = EFAULT;
    return -1;
}

static bool is_remote(const struct world *world, uint64_t record)
{
    return !world_has(world, 0, world_file_pack(record));
}

static uint64_t cold_file(const struct world *world)
{
    uint64_t record = 1;
    while (world_file_bytes(record) != COLD_BYTES || !is_remote(world, record))
        record++;
    CHECK(record <= WORLD_FILES);
    return record;
}

static void open_two(struct world *world, struct node_client *client)
{
    const struct world_shape shape = {2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU};
    world_open(world, shape, 0);
    client_open(client, world->nodes[0]);
}

static void close_two(struct world *world, struct node_client *client)
{
    client_close(client);
    world_close(world);
}

/* While one file is waited for, all others come. */
static void test_beside(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client);
    uint64_t cold = cold_file(&world);
    atomic_store(&hangs, true);
    client_want(&client, 0, fan_cache_file(0, cold), 0);
    EVENTUALLY(atomic_load(&waiting) == 1);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (is_remote(&world, record) && world_file_bytes(record) != COLD_BYTES)
            CHECK(client_read(&client, 1, record) == 0);
    }
    CHECK(atomic_load(&waiting) == 1);
    EVENTUALLY(world_stats(&world, 0).outstanding == 1);
    atomic_store(&hangs, false);
    CHECK(client_wait(&client, 0) == 0);
    client_compare(&client, 0, cold, 0);
    client_unpin(&client, 0);
    close_two(&world, &client);
}

/* As many are read at a time as a disk likes; those that wait come in their turn. */
static void test_depth(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client);
    unsigned wants = 0;
    atomic_store(&all_cold, true);
    atomic_store(&hangs, true);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        for (uint64_t block = 0; block * FAN_CACHE_BLOCK_BYTES < world_file_bytes(record);
             block++) {
            if (is_remote(&world, record))
                client_want(&client, wants++, fan_cache_file(0, record), block);
        }
    }
    CHECK(wants > FAN_READERS_MAX);
    EVENTUALLY(atomic_load(&waiting) == FAN_READERS_MAX);
    EVENTUALLY(world_stats(&world, 0).outstanding == wants);
    CHECK(atomic_load(&waiting) == FAN_READERS_MAX);
    atomic_store(&hangs, false);
    for (unsigned pin = 0; pin < wants; pin++) {
        CHECK(client_wait(&client, pin) == 0);
        client_unpin(&client, pin);
    }
    atomic_store(&all_cold, false);
    close_two(&world, &client);
}

/* What cannot be read is EIO for that file alone. */
static void test_failure(void)
{
    struct world world;
    struct node_client client;
    open_two(&world, &client);
    atomic_store(&fails, true);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        bool cold = world_file_bytes(record) == COLD_BYTES;
        if (is_remote(&world, record))
            CHECK(client_read(&client, 0, record) == (cold ? -EIO : 0));
    }
    CHECK(world_stats(&world, 1).refused > 0);
    atomic_store(&fails, false);
    close_two(&world, &client);
}

/* A thread that hangs in a file system keeps nobody from ending; what it may touch is left. */
static void test_stop(void)
{
    static struct world world; /* outlives the test: what rank 1 has is left */
    struct node_client client;
    open_two(&world, &client);
    atomic_store(&hangs, true);
    client_want(&client, 0, fan_cache_file(0, cold_file(&world)), 0);
    EVENTUALLY(atomic_load(&waiting) == 1);
    CHECK(fan_node_stop(world.nodes[1]) == 0);
    fan_node_close(world.nodes[1]);
    CHECK(fan_node_stop(world.nodes[0]) == 0);
    CHECK(client_wait(&client, 0) == -EREMOTEIO);
    munmap(client.base, client.bytes);
    fan_node_close(world.nodes[0]);
    atomic_store(&hangs, false);
    EVENTUALLY(atomic_load(&waiting) == 0);
}

/* Of an order's pieces that are on this rank's own disk, only these are read ahead. */
static void test_pieces_here(void)
{
    enum { PIECES = 3 };
    struct world world;
    struct node_client client;
    open_two(&world, &client);
    uint64_t record = 1, entries[PIECES];
    while (world_file_bytes(record) < PIECES * FAN_PIECE_BYTES || is_remote(&world, record))
        record++;
    for (uint64_t i = 0; i < PIECES; i++)
        entries[i] = record | (i + 1) << FAN_ENTRY_PIECE_SHIFT;
    atomic_store(&reads, 0);
    atomic_store(&read_bytes, 0);
    atomic_store(&all_cold, true);
    world_begin_order(&world, entries, PIECES);
    EVENTUALLY(atomic_load(&reads) == PIECES);
    CHECK(atomic_load(&read_bytes) <= PIECES * (FAN_PIECE_BYTES + 4096));
    CHECK(world_stats(&world, 0).ahead == 0); /* nothing came from the other rank */
    atomic_store(&all_cold, false);
    close_two(&world, &client);
}

int main(void)
{
    test_beside();
    test_pieces_here();
    test_depth();
    test_failure();
    test_stop();
    printf("test_node_cold: no fault\n");
    return 0;
}
