#include "node_client.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "node_world.h"

enum { WAIT_STEP_NS = 50000000, WAIT_STEPS = 1200 };

void client_open(struct node_client *client, struct fan_node *node)
{
    struct stat st;
    int fd = fan_node_cache_fd(node);
    int number = fan_node_session_begin(node, (uint32_t)getpid());
    CHECK(number >= 0 && fstat(fd, &st) == 0);
    char *base = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(base != MAP_FAILED);
    struct fan_cache_header *header = (void *)base;
    CHECK(memcmp(header->magic, FAN_CACHE_MAGIC, 8) == 0);
    CHECK(header->segment_bytes == (uint64_t)st.st_size);
    *client = (struct node_client){
        .node = node, .base = base, .bytes = (uint64_t)st.st_size, .header = header,
        .session = (struct fan_session *)(base + header->sessions_offset) + number,
        .number = (uint32_t)number};
    CHECK(__atomic_load_n(&client->session->state, __ATOMIC_SEQ_CST) == FAN_SESSION_LIVE);
}

void client_close(struct node_client *client)
{
    fan_node_session_end(client->node, client->number);
    munmap(client->base, client->bytes);
}

static void ring(struct node_client *client)
{
    __atomic_fetch_add(&client->header->doorbell, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&client->header->sleeping, __ATOMIC_SEQ_CST) != 0)
        syscall(SYS_futex, &client->header->doorbell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void name_block(struct fan_pin *pin, uint64_t file, uint64_t block)
{
    uint32_t expected = FAN_PIN_FREE;
    CHECK(__atomic_compare_exchange_n(&pin->state, &expected, FAN_PIN_CLAIMED, false,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    __atomic_store_n(&pin->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->block, block, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->from, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->count, 0, __ATOMIC_RELAXED);
}

static void ask(struct node_client *client, struct fan_pin *pin)
{
    __atomic_store_n(&pin->state, FAN_PIN_WANTED, __ATOMIC_SEQ_CST);
    __atomic_store_n(&client->session->wanted, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&client->header->wanted_sessions[client->number / 64],
                      UINT64_C(1) << client->number % 64, __ATOMIC_SEQ_CST);
    ring(client);
}

int client_hint(struct node_client *client, uint64_t file, uint64_t block, uint64_t count)
{
    for (unsigned i = 0; i < FAN_SESSION_HINTS; i++) {
        struct fan_hint *hint = &client->session->hints[i];
        if (__atomic_load_n(&hint->state, __ATOMIC_ACQUIRE) != FAN_HINT_FREE)
            continue;
        __atomic_store_n(&hint->file, file, __ATOMIC_RELAXED);
        __atomic_store_n(&hint->block, block, __ATOMIC_RELAXED);
        __atomic_store_n(&hint->count, count, __ATOMIC_RELAXED);
        __atomic_store_n(&hint->state, FAN_HINT_GIVEN, __ATOMIC_RELEASE);
        __atomic_store_n(&client->session->hinted, 1, __ATOMIC_SEQ_CST);
        __atomic_store_n(&client->header->hinted, 1, __ATOMIC_SEQ_CST);
        ring(client);
        return 0;
    }
    return -EAGAIN;
}

void client_want(struct node_client *client, unsigned pin, uint64_t file, uint64_t block)
{
    name_block(&client->session->pins[pin], file, block);
    ask(client, &client->session->pins[pin]);
}

static struct fan_cache_entry *entry_at(struct node_client *client, uint32_t id)
{
    CHECK(id < client->header->entry_count);
    return (struct fan_cache_entry *)(client->base + client->header->entries_offset) + id;
}

static bool names_block(struct fan_cache_entry *entry, uint64_t file, uint64_t block)
{
    return __atomic_load_n(&entry->file, __ATOMIC_RELAXED) == file &&
           __atomic_load_n(&entry->block, __ATOMIC_RELAXED) == block;
}

void client_want_part(struct node_client *client, unsigned number, uint64_t record, uint64_t block,
                      uint32_t from, uint32_t count)
{
    struct fan_pin *pin = &client->session->pins[number];
    name_block(pin, fan_cache_file(0, record), block);
    __atomic_store_n(&pin->from, from, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->count, count, __ATOMIC_RELAXED);
    ask(client, pin);
}

struct fan_piece client_compare_part(struct node_client *client, unsigned pin, uint64_t record,
                                     uint64_t block)
{
    struct fan_cache_entry *entry = entry_at(client, client->session->pins[pin].entry);
    uint64_t start = block * FAN_CACHE_BLOCK_BYTES + entry->from * FAN_CACHE_GRANULE_BYTES;
    CHECK(names_block(entry, fan_cache_file(0, record), block));
    CHECK(entry->offset >= client->header->data_offset);
    CHECK(entry->offset + entry->bytes <= client->bytes);
    CHECK(start + entry->bytes <= world_file_bytes(record));
    CHECK(memcmp(client->base + entry->offset, world_content(record) + start, entry->bytes) == 0);
    return (struct fan_piece){entry->from, (uint32_t)fan_cache_granules(entry->bytes)};
}

int client_wait(struct node_client *client, unsigned number)
{
    struct fan_pin *pin = &client->session->pins[number];
    const struct timespec step = {.tv_nsec = WAIT_STEP_NS};
    int steps = 0;
    __atomic_fetch_add(&pin->waiters, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&pin->state, __ATOMIC_SEQ_CST) == FAN_PIN_WANTED) {
        CHECK(steps++ < WAIT_STEPS);
        syscall(SYS_futex, &pin->state, FUTEX_WAIT, FAN_PIN_WANTED, &step, NULL, 0);
    }
    __atomic_fetch_sub(&pin->waiters, 1, __ATOMIC_SEQ_CST);
    uint32_t state = __atomic_load_n(&pin->state, __ATOMIC_SEQ_CST);
    CHECK(state == FAN_PIN_HELD || state == FAN_PIN_FAILED);
    return state == FAN_PIN_HELD ? 0 : -pin->error;
}

static bool is_block(struct fan_cache_entry *entry, uint64_t file, uint64_t block)
{
    return __atomic_load_n(&entry->state, __ATOMIC_SEQ_CST) == FAN_ENTRY_READY &&
           names_block(entry, file, block);
}

/* Holds the block if it is in the cache. */
static bool hit(struct node_client *client, struct fan_pin *pin, uint64_t file, uint64_t block)
{
    uint64_t mask = client->header->bucket_count - 1;
    struct fan_bucket *bucket =
        (struct fan_bucket *)(client->base + client->header->buckets_offset) +
        (fan_cache_hash(file, block) & mask);
    for (unsigned way = 0; way < FAN_CACHE_WAYS; way++) {
        uint32_t id = __atomic_load_n(&bucket->entries[way], __ATOMIC_ACQUIRE);
        if (id == 0 || !is_block(entry_at(client, id - 1), file, block))
            continue;
        __atomic_store_n(&pin->entry, id - 1, __ATOMIC_RELAXED);
        __atomic_store_n(&pin->state, FAN_PIN_HELD, __ATOMIC_SEQ_CST);
        if (is_block(entry_at(client, id - 1), file, block)) {
            __atomic_store_n(&entry_at(client, id - 1)->touched, 1, __ATOMIC_RELAXED);
            return true;
        }
        __atomic_store_n(&pin->state, FAN_PIN_CLAIMED, __ATOMIC_SEQ_CST);
    }
    return false;
}

int client_pin(struct node_client *client, unsigned number, uint64_t file, uint64_t block)
{
    struct fan_pin *pin = &client->session->pins[number];
    name_block(pin, file, block);
    if (hit(client, pin, file, block))
        return 0;
    ask(client, pin);
    return client_wait(client, number);
}

void client_unpin(struct node_client *client, unsigned pin)
{
    __atomic_store_n(&client->session->pins[pin].state, FAN_PIN_FREE, __ATOMIC_SEQ_CST);
}

void client_compare(struct node_client *client, unsigned pin, uint64_t record, uint64_t block)
{
    uint32_t id = client->session->pins[pin].entry;
    struct fan_cache_entry *entry = entry_at(client, id);
    /* The daemon may have it EVICTING for a moment, until it sees the pin. */
    CHECK(names_block(entry, fan_cache_file(0, record), block));
    uint64_t from = block * FAN_CACHE_BLOCK_BYTES, rest = world_file_bytes(record) - from;
    CHECK(entry->bytes == (rest < FAN_CACHE_BLOCK_BYTES ? rest : FAN_CACHE_BLOCK_BYTES));
    CHECK(entry->offset >= client->header->data_offset);
    CHECK(entry->offset + entry->bytes <= client->bytes);
    CHECK(memcmp(client->base + entry->offset, world_content(record) + from, entry->bytes) == 0);
}

static int read_blocks(struct node_client *client, unsigned pin, uint64_t record)
{
    uint64_t bytes = world_file_bytes(record);
    int rc = 0;
    for (uint64_t block = 0; rc == 0 && block * FAN_CACHE_BLOCK_BYTES < bytes; block++) {
        rc = client_pin(client, pin, fan_cache_file(0, record), block);
        if (rc == 0)
            client_compare(client, pin, record, block);
        client_unpin(client, pin);
    }
    return rc;
}

unsigned client_note(struct node_client *client, uint64_t file)
{
    unsigned first = fan_session_place(file);
    for (unsigned place = first; place < first + FAN_SESSION_WAYS; place++) {
        uint64_t none = 0;
        if (__atomic_compare_exchange_n(&client->session->files[place], &none, file, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return place;
    }
    return FAN_SESSION_FILES;
}

void client_drop(struct node_client *client, unsigned place)
{
    if (place < FAN_SESSION_FILES)
        __atomic_fetch_or(&client->session->closed[place / 64], UINT64_C(1) << place % 64,
                          __ATOMIC_SEQ_CST);
}

int client_read(struct node_client *client, unsigned pin, uint64_t record)
{
    unsigned place = client_note(client, fan_cache_file(0, record));
    int rc = read_blocks(client, pin, record);
    client_drop(client, place);
    return rc;
}
