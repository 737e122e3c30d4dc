/* The shared file system, which the daemon reads into the cache: once a node, and bounded. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../csrc/node/storage/readers.h"
#include "check.h"
#include "node_client.h"
#include "node_readers.h"
#include "node_world.h"

enum { LONG_MS = 30000, SHORT_MS = 2000, ODD_BYTES = 131072 };

/* The shared file system. hangs: whoever reads a file of ODD_BYTES waits until this is false;
 * all_hang: whoever reads anything. cut_off: such a file ends in its middle. waiting: how many wait now. reads: all that began. */
static atomic_bool hangs, all_hang, cut_off;
static atomic_int waiting, reads;

/* Takes the place of libc's. */
ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    atomic_fetch_add(&reads, 1);
    if (bytes == ODD_BYTES || atomic_load(&all_hang)) {
        atomic_fetch_add(&waiting, 1);
        while (atomic_load(bytes == ODD_BYTES ? &hangs : &all_hang))
            pause_ms(1);
        atomic_fetch_sub(&waiting, 1);
    }
    if (bytes <= ODD_BYTES && bytes >= ODD_BYTES / 2 && atomic_load(&cut_off))
        return bytes == ODD_BYTES ? (ssize_t)syscall(SYS_pread64, fd, to, bytes / 2, offset) : 0;
    return (ssize_t)syscall(SYS_pread64, fd, to, bytes, offset);
}

static uint64_t odd_file(void)
{
    uint64_t record = 1;
    while (world_file_bytes(record) != ODD_BYTES)
        record++;
    return record;
}

static unsigned blocks_of_all(void)
{
    unsigned blocks = 0;
    for (uint64_t record = 1; record <= WORLD_FILES; record++)
        blocks += (unsigned)((world_file_bytes(record) - 1) / FAN_CACHE_BLOCK_BYTES + 1);
    return blocks;
}

/* One rank, on whose disk nothing is. */
static void open_alone(struct world *world, struct node_client *client, uint64_t deadline_ms)
{
    struct world_shape shape = {1, 0, WORLD_LARGE_BYTES, deadline_ms, FAN_POLICY_MINIO, true};
    world_open(world, shape, 0);
    client_open(client, world->nodes[0]);
}

static void close_alone(struct world *world, struct node_client *client)
{
    client_close(client);
    world_close(world);
}

/* Whatever many clients read, in whatever order: each block is read once. */
static void test_once(void)
{
    struct world world;
    struct node_client client;
    open_alone(&world, &client, LONG_MS);
    atomic_store(&reads, 0);
    read_on(&world, 1, 2);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(atomic_load(&reads) == (int)blocks_of_all());
    CHECK(stats.shared_reads == blocks_of_all() && stats.failures == 0 && stats.fetches == 0);
    close_alone(&world, &client);
}

/* A read that hangs ends in EIO at its deadline; until then, and afterwards, others are served. */
static void test_hang(void)
{
    struct world world;
    struct node_client client;
    open_alone(&world, &client, SHORT_MS);
    uint64_t odd = odd_file();
    atomic_store(&hangs, true);
    client_want(&client, 0, fan_cache_file(0, odd), 0);
    EVENTUALLY(atomic_load(&waiting) == 1);
    for (uint64_t record = 1; record < odd; record++)
        CHECK(client_read(&client, 1, record) == 0);
    CHECK(client_wait(&client, 0) == -EIO);
    client_unpin(&client, 0);
    EVENTUALLY(world_stats(&world, 0).quarantined == 1);
    CHECK(client_read(&client, 1, odd + 1) == 0);
    atomic_store(&hangs, false);
    EVENTUALLY(world_stats(&world, 0).quarantined == 0);
    CHECK(client_read(&client, 1, odd) == 0);
    close_alone(&world, &client);
}

/* A pack that is shorter than it was is EIO, for that file alone. */
static void test_cut_off(void)
{
    struct world world;
    struct node_client client;
    open_alone(&world, &client, LONG_MS);
    atomic_store(&cut_off, true);
    CHECK(client_read(&client, 0, odd_file()) == -EIO);
    CHECK(client_read(&client, 0, odd_file() + 1) == 0);
    atomic_store(&cut_off, false);
    CHECK(client_read(&client, 0, odd_file()) == 0);
    close_alone(&world, &client);
}

/* Where every thread hangs, reads that none has begun take no room for longer than their deadline,
 * and are not taken for errors of the file. */
static void test_queue(void)
{
    struct world world;
    struct node_client client;
    unsigned wants = 0;
    open_alone(&world, &client, SHORT_MS);
    atomic_store(&all_hang, true);
    atomic_store(&hangs, true);
    for (uint64_t record = 1; wants < FAN_READERS_MAX + 4; record++)
        client_want(&client, wants++, fan_cache_file(0, record), 0);
    unsigned unread = 0;
    for (unsigned pin = 0; pin < wants; pin++) {
        int rc = client_wait(&client, pin);
        CHECK(rc == -EIO || rc == -EREMOTEIO);
        unread += rc == -EREMOTEIO;
        client_unpin(&client, pin);
    }
    CHECK(unread == 4);
    EVENTUALLY(world_stats(&world, 0).quarantined == FAN_READERS_MAX);
    atomic_store(&all_hang, false);
    atomic_store(&hangs, false);
    EVENTUALLY(world_stats(&world, 0).quarantined == 0);
    CHECK(client_read(&client, 0, 1) == 0);
    close_alone(&world, &client);
}

/* What lost ranks had is read from there, unless it is damaged: then its copy came from there. */
static void test_after_a_loss(void)
{
    struct world world;
    struct node_client client;
    uint64_t damaged = 0;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU, true},
               0);
    client_open(&client, world.nodes[0]);
    fan_node_lose(world.nodes[0], 1);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (world_has(&world, 0, world_file_pack(record)))
            continue;
        if (damaged == 0)
            world_damage(&world, 0, damaged = record);
        CHECK(client_read(&client, 0, record) == (record == damaged ? -EIO : 0));
    }
    CHECK(world_stats(&world, 0).shared_reads > 0);
    close_alone(&world, &client);
}

/* A thread that hangs keeps nobody from ending; what it may touch is left. */
static void test_stop(void)
{
    static struct world world; /* outlives the test: see its end */
    struct node_client client;
    open_alone(&world, &client, LONG_MS);
    atomic_store(&hangs, true);
    client_want(&client, 0, fan_cache_file(0, odd_file()), 0);
    EVENTUALLY(atomic_load(&waiting) == 1);
    CHECK(fan_node_stop(world.nodes[0]) == 0);
    CHECK(client_wait(&client, 0) == -EREMOTEIO);
    munmap(client.base, client.bytes);
    fan_node_close(world.nodes[0]);
    atomic_store(&hangs, false);
    EVENTUALLY(atomic_load(&waiting) == 0);
}

int main(void)
{
    test_once();
    test_hang();
    test_cut_off();
    test_queue();
    test_after_a_loss();
    test_stop();
    printf("test_node_shared: no fault\n");
    return 0;
}
