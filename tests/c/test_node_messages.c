/* Messages between node daemons in one process: order, limits, lost ranks, the end. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "node_world.h"

enum { LONG_MS = 30000, LONG_BYTES = 200000 };

static uint8_t buffer[FAN_NODE_MESSAGE_MAX_BYTES];

static void open_world(struct world *world, uint32_t ranks, uint64_t deadline_ms)
{
    world_open(world, (struct world_shape){ranks, 1, WORLD_TINY_BYTES, deadline_ms, FAN_POLICY_LRU},
               0);
}

/* What a message of so many bytes holds, its number first. */
static void fill(uint8_t *to, uint32_t number, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(number * 31 + i + (i >> 9));
    memcpy(to, &number, bytes < sizeof(number) ? bytes : sizeof(number));
}

static bool is_readable(const struct fan_node *node)
{
    struct pollfd wanted = {.fd = fan_node_message_fd(node), .events = POLLIN};
    return poll(&wanted, 1, 0) == 1;
}

static int wait_readable(const struct fan_node *node)
{
    struct pollfd wanted = {.fd = fan_node_message_fd(node), .events = POLLIN};
    return poll(&wanted, 1, 30000);
}

/* The next message; its length. */
static int64_t take(struct fan_node *node, uint8_t *to, uint64_t room, uint32_t *rank)
{
    uint64_t needed = 0;
    CHECK(wait_readable(node) == 1);
    int64_t bytes = fan_node_take(node, to, room, rank, &needed);
    CHECK(bytes >= 0);
    return bytes;
}

static void expect_nothing(struct fan_node *node)
{
    uint32_t rank;
    uint64_t needed;
    CHECK(!is_readable(node));
    CHECK(fan_node_take(node, buffer, sizeof(buffer), &rank, &needed) == -EAGAIN);
}

/* ---- order ---- */

enum { SENT = 3000 };

static uint64_t bytes_of(uint32_t number)
{
    return number % 50 == 49 ? LONG_BYTES + number : 4 + number % 900;
}

struct sender {
    struct fan_node *node;
    uint32_t to;
};

static void *send_all(void *argument)
{
    static _Thread_local uint8_t message[LONG_BYTES + SENT];
    const struct sender *sender = argument;
    for (uint32_t number = 0; number < SENT; number++) {
        fill(message, number, bytes_of(number));
        CHECK(fan_node_post(sender->node, sender->to, message, bytes_of(number)) == 0);
    }
    return NULL;
}

/* Two ranks send to a third, and it to them; of each all come, whole, in the order of sending. */
static void test_order(void)
{
    static uint8_t expected[LONG_BYTES + SENT];
    struct world world;
    pthread_t threads[3];
    uint32_t next[3] = {0};
    open_world(&world, 3, LONG_MS);
    struct sender senders[3] = {
        {world.nodes[1], 0}, {world.nodes[2], 0}, {world.nodes[0], 1}};
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, send_all, &senders[i]) == 0);
    while (next[1] < SENT || next[2] < SENT) {
        uint32_t rank = 0;
        int64_t bytes = take(world.nodes[0], buffer, sizeof(buffer), &rank);
        CHECK(rank == 1 || rank == 2);
        fill(expected, next[rank], bytes_of(next[rank]));
        CHECK(bytes == (int64_t)bytes_of(next[rank]));
        CHECK(memcmp(buffer, expected, (size_t)bytes) == 0);
        next[rank]++;
    }
    for (uint32_t number = 0; number < SENT; number++) {
        uint32_t rank = 0, found;
        CHECK(take(world.nodes[1], buffer, sizeof(buffer), &rank) == (int64_t)bytes_of(number));
        memcpy(&found, buffer, sizeof(found));
        CHECK(rank == 0 && found == number);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++)
        expect_nothing(world.nodes[i]);
    world_close(&world);
}

/* ---- limits ---- */

static void test_limits(void)
{
    struct world world;
    uint32_t rank = 77;
    uint64_t needed = 0;
    open_world(&world, 2, LONG_MS);
    struct fan_node *from = world.nodes[0], *to = world.nodes[1];
    CHECK(fan_node_post(from, 2, "x", 1) == -EINVAL);
    CHECK(fan_node_post(from, 0, "x", 1) == -EINVAL);
    CHECK(fan_node_post(from, 1, buffer, FAN_NODE_MESSAGE_MAX_BYTES + 1ULL) == -EMSGSIZE);
    expect_nothing(to);
    fill(buffer, 5, sizeof(buffer));
    CHECK(fan_node_post(from, 1, buffer, sizeof(buffer)) == 0);
    CHECK(fan_node_post(from, 1, NULL, 0) == 0);
    memset(buffer, 0, sizeof(buffer));
    CHECK(wait_readable(to) == 1);
    CHECK(fan_node_take(to, buffer, sizeof(buffer) - 1, &rank, &needed) == -ENOBUFS);
    CHECK(needed == sizeof(buffer) && is_readable(to) && rank == 77);
    CHECK(take(to, buffer, sizeof(buffer), &rank) == (int64_t)sizeof(buffer) && rank == 0);
    for (uint64_t i = 4; i < sizeof(buffer); i++)
        CHECK(buffer[i] == (uint8_t)(5 * 31 + i + (i >> 9)));
    CHECK(take(to, NULL, 0, &rank) == 0 && rank == 0);
    expect_nothing(to);
    world_close(&world);
}

/* A transport that is short of memory for a while loses nothing, nor the order. */
static void test_short_of_memory(void)
{
    struct world world;
    open_world(&world, 2, LONG_MS);
    atomic_store(&world_knobs(&world, 0)->short_of_memory, 1);
    for (uint32_t number = 0; number < 100; number++)
        CHECK(fan_node_post(world.nodes[0], 1, &number, sizeof(number)) == 0);
    pause_ms(20);
    expect_nothing(world.nodes[1]);
    atomic_store(&world_knobs(&world, 0)->short_of_memory, 0);
    for (uint32_t number = 0; number < 100; number++) {
        uint32_t rank, found;
        CHECK(take(world.nodes[1], (uint8_t *)&found, sizeof(found), &rank) == sizeof(found));
        CHECK(found == number);
    }
    CHECK(!fan_node_is_lost(world.nodes[0], 1));
    world_close(&world);
}

/* ---- lost ranks ---- */

/* To a rank that cannot be reached nothing is sent, nor accepted once that is known. */
static void test_unreachable(void)
{
    struct world world;
    uint32_t rank;
    open_world(&world, 3, LONG_MS);
    atomic_store(&world_knobs(&world, 1)->cut, 1);
    CHECK(fan_node_post(world.nodes[0], 1, "gone", 4) == 0);
    CHECK(fan_node_post(world.nodes[0], 2, "here", 4) == 0);
    CHECK(take(world.nodes[2], buffer, 4, &rank) == 4 && memcmp(buffer, "here", 4) == 0);
    EVENTUALLY(fan_node_is_lost(world.nodes[0], 1));
    CHECK(fan_node_post(world.nodes[0], 1, "gone", 4) == -EREMOTEIO);
    CHECK(!fan_node_is_lost(world.nodes[0], 2));
    world_close(&world);
}

/* What comes from a rank that was given up is not heard. */
static void test_given_up(void)
{
    struct world world;
    uint32_t rank;
    open_world(&world, 3, LONG_MS);
    fan_node_lose(world.nodes[0], 1);
    CHECK(fan_node_post(world.nodes[1], 0, "late", 4) == 0);
    CHECK(fan_node_post(world.nodes[2], 0, "good", 4) == 0);
    CHECK(take(world.nodes[0], buffer, 4, &rank) == 4 && rank == 2);
    pause_ms(20);
    expect_nothing(world.nodes[0]);
    world_close(&world);
}

/* A message that came damaged is not heard, and its rank is lost. */
static void test_garbled(void)
{
    struct world world;
    open_world(&world, 2, LONG_MS);
    atomic_store(&world_knobs(&world, 1)->garbled, 1);
    CHECK(fan_node_post(world.nodes[0], 1, "ill", 3) == 0);
    EVENTUALLY(fan_node_is_lost(world.nodes[1], 0));
    expect_nothing(world.nodes[1]);
    world_close(&world);
}

/* ---- the end ---- */

/* What was posted before the end is sent yet; afterwards nothing is accepted, and what came before
 * it may be taken. */
static void test_stop(void)
{
    struct world world;
    uint32_t rank;
    open_world(&world, 2, LONG_MS);
    fill(buffer, 1, LONG_BYTES);
    for (int i = 0; i < 20; i++)
        CHECK(fan_node_post(world.nodes[0], 1, buffer, LONG_BYTES) == 0);
    CHECK(fan_node_stop(world.nodes[0]) == 0);
    CHECK(fan_node_post(world.nodes[0], 1, "x", 1) == -ESHUTDOWN);
    for (int i = 0; i < 19; i++)
        CHECK(take(world.nodes[1], buffer, LONG_BYTES, &rank) == LONG_BYTES);
    CHECK(fan_node_stop(world.nodes[1]) == 0);
    CHECK(take(world.nodes[1], buffer, LONG_BYTES, &rank) == LONG_BYTES && rank == 0);
    world_close(&world); /* and what nobody took is freed */
}

/* A message that does not leave keeps the transport busy; the end says so. */
static void test_stop_with_one_under_way(void)
{
    static struct world world; /* outlives the test: rank 0 is left as it is at first */
    open_world(&world, 2, LONG_MS);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    fill(buffer, 1, LONG_BYTES);
    CHECK(fan_node_post(world.nodes[0], 1, buffer, LONG_BYTES) == 0);
    CHECK(fan_node_stop(world.nodes[0]) == -EBUSY);
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    CHECK(wait_readable(world.nodes[1]) == 1);
    fan_node_close(world.nodes[1]);
    fan_node_close(world.nodes[0]); /* leaves all as it is, to the end of the process */
}

/* ---- rest ---- */

static uint64_t thread_ns(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

/* Messages that nobody takes, and one that does not leave, do not keep the threads awake. */
static void test_rest(void)
{
    static struct world world;
    open_world(&world, 2, LONG_MS);
    CHECK(fan_node_post(world.nodes[0], 1, "x", 1) == 0);
    CHECK(wait_readable(world.nodes[1]) == 1);
    atomic_store(&world_knobs(&world, 1)->frozen, 1);
    fill(buffer, 1, LONG_BYTES);
    CHECK(fan_node_post(world.nodes[0], 1, buffer, LONG_BYTES) == 0);
    pause_ms(50);
    uint64_t before_ns = thread_ns();
    pause_ms(400);
    CHECK(thread_ns() - before_ns < 200000000); /* two threads that spin: 800 ms */
    atomic_store(&world_knobs(&world, 1)->frozen, 0);
    world_close(&world);
}

int main(void)
{
    test_order();
    test_limits();
    test_short_of_memory();
    test_unreachable();
    test_given_up();
    test_garbled();
    test_stop();
    test_rest();
    test_stop_with_one_under_way();
    printf("test_node_messages: all arrived\n");
    return 0;
}
