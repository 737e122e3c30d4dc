/* Node daemons in one process, joined by a loopback whose faults the test chooses. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../csrc/format/shm_format.h"
#include "check.h"
#include "node_client.h"
#include "node_readers.h"
#include "node_world.h"

enum { LONG_MS = 30000, SHORT_MS = 700 };

static atomic_bool memory_is_out;

/* Takes the place of libc's: as under strict accounting, when all memory is promised. */
int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    if (!atomic_load(&memory_is_out))
        return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
    errno = ENOSPC;
    return -1;
}

/* The bytes that the cache takes of memory. */
static uint64_t taken(const struct world *world)
{
    struct stat st;
    CHECK(fstat(fan_node_cache_fd(world->nodes[0]), &st) == 0);
    return (uint64_t)st.st_blocks * 512;
}

/* Reads all that is remote, twice. */
static void read_remote(struct world *world, struct node_client *client)
{
    for (uint64_t n = 0; n < 2 * WORLD_FILES; n++) {
        uint64_t record = 1 + n % WORLD_FILES;
        if (!world_has(world, 0, world_file_pack(record)))
            CHECK(client_read(client, 0, record) == 0);
    }
}

/* A cache for which there is no more memory goes on with what it has, and stores nowhere else. */
static void test_no_memory(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    atomic_store(&memory_is_out, true);
    uint64_t before = taken(&world);
    read_remote(&world, &client);
    CHECK(taken(&world) == before && before < 10 * FAN_CACHE_BLOCK_BYTES);
    CHECK(world_stats(&world, 0).evicted > 0);
    atomic_store(&memory_is_out, false);
    client_close(&client);
    world_close(&world);
    world_open(&world, (struct world_shape){2, 1, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    client_open(&client, world.nodes[0]);
    read_remote(&world, &client);
    CHECK(taken(&world) > 16 << 20);
    client_close(&client);
    world_close(&world);
}

/* One damaged replica is stepped over; damaged everywhere is EIO. */
static void test_damage(void)
{
    struct world world;
    struct node_client client;
    world_open(&world, (struct world_shape){3, 2, WORLD_LARGE_BYTES, LONG_MS, FAN_POLICY_LRU}, 0);
    uint64_t record = world_remote_file(&world);
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
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
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
        CHECK(client_wait(&client, pin) == (replicas == 1 ? -EIO : 0));
    uint64_t asked = world_stats(&world, 0).fetches;
    for (unsigned pin = 0; pin < wants; pin++)
        client_unpin(&client, pin);
    CHECK(client_pin(&client, 0, last, 0) == (replicas == 1 ? -EIO : 0));
    client_unpin(&client, 0);
    CHECK(world_stats(&world, 0).fetches - asked <= replicas - 1);
    EVENTUALLY(world_stats(&world, 0).lost_ranks == 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
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
    atomic_store(&world_knobs(&world, 1)->cut, 1);
    for (uint64_t record = 1; record <= WORLD_FILES; record++) {
        if (!world_has(&world, 0, world_file_pack(record)))
            CHECK(client_read(&client, 0, record) == 0);
    }
    CHECK(fan_node_is_lost(world.nodes[0], 1));
    atomic_store(&world_knobs(&world, 0)->broken, 1);
    EVENTUALLY(fan_node_is_lost(world.nodes[0], 2));
    client_want(&client, 0, fan_cache_file(0, WORLD_FILES * 5), 0);
    CHECK(client_wait(&client, 0) == -EIO);
    CHECK(fan_node_finish(world.nodes[0]) == 0);
    CHECK(fan_node_stop(world.nodes[0]) == -EBUSY);
    atomic_store(&world_knobs(&world, 0)->broken, 0);
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
    atomic_store(&world_knobs(&world, 0)->stubborn, 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    read_on(&world, 1, 1);
    struct fan_node_stats stats = world_stats(&world, 0);
    CHECK(stats.timeouts > 0 && stats.quarantined > 0 && stats.retries > 0);
    atomic_store(&world_knobs(&world, 1)->delay_us, 2000);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
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
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    uint64_t record = world_remote_file(&world);
    for (unsigned i = 0; i < READS; i++)
        CHECK(client_read(&client, 0, record) == -EIO);
    uint64_t tried = world_stats(&world, 0).fetches;
    CHECK(tried >= 1 && tried < READS && world_stats(&world, 0).failures == READS);
    atomic_store(&world_knobs(&world, 1)->deaf, 0);
    EVENTUALLY(client_read(&client, 0, record) == 0);
    client_close(&client);
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
    uint64_t own = 1, foreign = world_remote_file(&world);
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
    EVENTUALLY(fan_node_finish(world.nodes[1]) == 1); /* rank 0, which counts */
    EVENTUALLY(fan_node_finish(world.nodes[0]) == 1);
    pause_ms(5 * SHORT_MS); /* rank 2 is busy, and answers: it is not lost */
    CHECK(fan_node_finish(world.nodes[0]) == 1 && !fan_node_is_lost(world.nodes[0], 2));
    atomic_store(&world_knobs(&world, 2)->frozen, 1);
    EVENTUALLY(fan_node_finish(world.nodes[0]) == 0);
    CHECK(fan_node_is_lost(world.nodes[0], 2));
    atomic_store(&world_knobs(&world, 2)->frozen, 0);
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
    atomic_store(&world_knobs(&world, 0)->stubborn, stubborn);
    atomic_store(&world_knobs(&world, 1)->deaf, 1);
    client_want(&client, 0, fan_cache_file(0, world_remote_file(&world)), 0);
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
    test_damage();
    test_lost(1);
    test_lost(2);
    test_unreachable();
    test_late();
    test_suspect();
    test_server();
    test_finish();
    test_no_memory();
    test_stop(false);
    test_stop(true);
    printf("test_node_faults: no fault\n");
    return 0;
}
