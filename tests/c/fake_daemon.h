/*
 * A node daemon in as few lines as its side of the protocol takes: one process, one thread, blocks
 * of fixed size. It takes blocks away at every occasion, and spoils them when it does. For
 * remote_job.h, which tells it through `struct control` how to behave.
 */
#pragma once

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../../csrc/format/cache_format.h"
#include "../../csrc/format/shm_format.h"
#include "check.h"

enum { FAKE_SESSIONS = 16, FAKE_BUCKETS = 64 };

enum lie { HONEST, LIE_ENTRY, LIE_OFFSET, LIE_KEY, LIE_SHORT, LIE_FREED };

/* Shared by the daemon and its clients. ids: of records; 0: none. */
struct control {
    unsigned entries;       /* blocks in the cache */
    unsigned patience;      /* rounds that a want may wait at most */
    bool evict_always;      /* not only when a block is needed */
    bool sleepless;
    bool forget;            /* takes live clients for dead now and then */
    bool refuse;            /* no sessions */
    bool in_pieces;         /* the answer line comes in two, with a descriptor each */
    bool silent;            /* no want is answered */
    bool piecemeal;         /* a want gets a piece of its block, of a few granules */
    enum lie lie;
    uint64_t damaged_id;    /* EIO */
    uint64_t lost_id;       /* EREMOTEIO */
    uint64_t (*stored_bytes)(uint64_t id);
    void (*fill)(uint8_t *to, uint64_t id, uint64_t offset, uint64_t bytes);
    atomic_uint begun;      /* sessions */
    atomic_uint live;
    atomic_uint wants;      /* that were seen */
    atomic_uint evictions;
    atomic_uint spared;     /* evictions that a pin prevented */
    atomic_uint open_files; /* of all sessions, at the last look */
};

struct fake {
    struct control *control;
    int segment;
    int listener;
    char *base;
    struct fan_cache_header *header;
    struct fan_session *sessions;
    struct fan_bucket *buckets;
    struct fan_cache_entry *entries;
    int links[FAKE_SESSIONS];  /* -1: free */
    bool wanted[FAKE_SESSIONS]; /* something of it is not answered yet */
    unsigned seed;
};

static unsigned fake_random(struct fake *fake, unsigned below)
{
    fake->seed = fake->seed * 1664525 + 1013904223;
    return (fake->seed >> 8) % below;
}

static size_t fake_segment_bytes(unsigned entries)
{
    return sizeof(struct fan_cache_header) + FAKE_SESSIONS * sizeof(struct fan_session) +
           FAKE_BUCKETS * sizeof(struct fan_bucket) + entries * sizeof(struct fan_cache_entry) +
           (size_t)entries * FAN_CACHE_BLOCK_BYTES;
}

/* A valid header for `entries` blocks. */
static struct fan_cache_header fake_header(unsigned entries)
{
    struct fan_cache_header header = {
        .version = FAN_CACHE_VERSION,
        .layout_id = FAN_CACHE_LAYOUT_ID,
        .segment_bytes = fake_segment_bytes(entries),
        .sessions_offset = sizeof(header),
        .session_count = FAKE_SESSIONS,
        .bucket_count = FAKE_BUCKETS,
        .entry_count = entries,
        .state = FAN_JOB_SERVING,
        .follows_opens = 1,
    };
    memcpy(header.magic, FAN_CACHE_MAGIC, sizeof(header.magic));
    header.buckets_offset = header.sessions_offset + FAKE_SESSIONS * sizeof(struct fan_session);
    header.entries_offset = header.buckets_offset + FAKE_BUCKETS * sizeof(struct fan_bucket);
    header.data_offset = header.entries_offset + entries * sizeof(struct fan_cache_entry);
    return header;
}

static int fake_segment(unsigned entries)
{
    struct fan_cache_header header = fake_header(entries);
    int fd = memfd_create("fake-cache", MFD_CLOEXEC);
    CHECK(fd >= 0 && ftruncate(fd, (off_t)header.segment_bytes) == 0);
    CHECK(pwrite(fd, &header, sizeof(header), 0) == sizeof(header));
    return fd;
}

static void fake_map(struct fake *fake)
{
    struct fan_cache_header header = fake_header(fake->control->entries);
    fake->segment = fake_segment(fake->control->entries);
    fake->base = mmap(NULL, header.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                      fake->segment, 0);
    CHECK(fake->base != MAP_FAILED);
    fake->header = (void *)fake->base;
    fake->sessions = (void *)(fake->base + header.sessions_offset);
    fake->buckets = (void *)(fake->base + header.buckets_offset);
    fake->entries = (void *)(fake->base + header.entries_offset);
    for (unsigned i = 0; i < FAKE_SESSIONS; i++)
        fake->links[i] = -1;
    for (unsigned i = 0; i < header.entry_count; i++)
        fake->entries[i].offset = header.data_offset + (uint64_t)i * FAN_CACHE_BLOCK_BYTES;
}

static void fake_send(int link, const char *line, size_t bytes, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec vector = {(void *)line, bytes};
    struct msghdr message = {.msg_iov = &vector,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &fd, sizeof(fd));
    CHECK(sendmsg(link, &message, MSG_NOSIGNAL) == (ssize_t)bytes);
}

static void fake_answer(struct fake *fake, int link, unsigned number)
{
    char line[64];
    size_t bytes = (size_t)snprintf(line, sizeof(line), "{\"session\": %u}\n", number);
    if (!fake->control->in_pieces) {
        fake_send(link, line, bytes, fake->segment);
        return;
    }
    fake_send(link, line, 4, STDERR_FILENO);
    fake_send(link, line + 4, bytes - 4, fake->segment);
}

static void fake_accept(struct fake *fake)
{
    static const char asked[] = "{\"op\": \"session\"}\n", refusal[] = "{\"error\": \"no\"}\n";
    char line[64];
    unsigned number = 0;
    int link = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);
    CHECK(link >= 0);
    CHECK(recv(link, line, sizeof(line), 0) == sizeof(asked) - 1);
    CHECK(memcmp(line, asked, sizeof(asked) - 1) == 0);
    while (number < FAKE_SESSIONS && fake->links[number] >= 0)
        number++;
    if (fake->control->refuse || number == FAKE_SESSIONS) {
        CHECK(send(link, refusal, sizeof(refusal) - 1, MSG_NOSIGNAL) > 0);
        close(link);
        return;
    }
    fake->links[number] = link;
    atomic_fetch_add(&fake->control->begun, 1);
    atomic_fetch_add(&fake->control->live, 1);
    fake_answer(fake, link, number);
}

static void fake_end_session(struct fake *fake, unsigned number)
{
    close(fake->links[number]);
    fake->links[number] = -1;
    fake->wanted[number] = false;
    memset(&fake->sessions[number], 0, sizeof(struct fan_session));
    atomic_fetch_sub(&fake->control->live, 1);
}

/* Accepts who comes, ends the sessions of those who went. */
static void fake_sockets(struct fake *fake)
{
    struct pollfd polled[1 + FAKE_SESSIONS] = {{fake->listener, POLLIN, 0}};
    for (unsigned i = 0; i < FAKE_SESSIONS; i++)
        polled[1 + i] = (struct pollfd){fake->links[i], 0, 0};
    if (poll(polled, 1 + FAKE_SESSIONS, 0) <= 0)
        return;
    for (unsigned i = 0; i < FAKE_SESSIONS; i++) {
        if (polled[1 + i].revents & POLLHUP)
            fake_end_session(fake, i);
    }
    if (polled[0].revents & POLLIN)
        fake_accept(fake);
}

static bool fake_is_pinned(struct fake *fake, unsigned entry)
{
    for (unsigned i = 0; i < FAKE_SESSIONS; i++) {
        for (unsigned j = 0; fake->links[i] >= 0 && j < FAN_SESSION_PINS; j++) {
            const struct fan_pin *pin = &fake->sessions[i].pins[j];
            if (__atomic_load_n(&pin->state, __ATOMIC_SEQ_CST) == FAN_PIN_HELD &&
                __atomic_load_n(&pin->entry, __ATOMIC_RELAXED) == entry)
                return true;
        }
    }
    return false;
}

/* Replaces `from` by `to` in the bucket of an entry: entry + 1, or 0. A piece is only in the bucket
 * of its first granule, so clients do not find it under the others. */
static void fake_rename(struct fake *fake, const struct fan_cache_entry *entry, uint32_t from,
                        uint32_t to)
{
    uint32_t granule = fake->control->piecemeal ? entry->from : FAN_BLOCK_GRANULES;
    uint64_t key = fan_cache_key(entry->block, granule);
    struct fan_bucket *bucket = &fake->buckets[fan_cache_hash(entry->file, key) % FAKE_BUCKETS];
    for (unsigned i = 0; i < FAN_CACHE_WAYS; i++) {
        if (bucket->entries[i] == from) {
            __atomic_store_n(&bucket->entries[i], to, __ATOMIC_SEQ_CST);
            return;
        }
    }
}

/* Frees an entry unless it is pinned. Whether it is free now. */
static bool fake_evict(struct fake *fake, unsigned number)
{
    struct fan_cache_entry *entry = &fake->entries[number];
    if (entry->state == FAN_ENTRY_FREE)
        return true;
    __atomic_store_n(&entry->state, FAN_ENTRY_EVICTING, __ATOMIC_SEQ_CST);
    if (fake_is_pinned(fake, number)) {
        __atomic_store_n(&entry->state, FAN_ENTRY_READY, __ATOMIC_SEQ_CST);
        atomic_fetch_add(&fake->control->spared, 1);
        return false;
    }
    fake_rename(fake, entry, number + 1, 0);
    memset(fake->base + entry->offset, 0xEE, entry->bytes);
    __atomic_store_n(&entry->state, FAN_ENTRY_FREE, __ATOMIC_SEQ_CST);
    atomic_fetch_add(&fake->control->evictions, 1);
    return true;
}

static int fake_find(struct fake *fake, const struct fan_pin *pin)
{
    for (unsigned i = 0; i < fake->control->entries; i++) {
        const struct fan_cache_entry *entry = &fake->entries[i];
        if (entry->state == FAN_ENTRY_READY && entry->file == pin->file &&
            entry->block == pin->block &&
            pin->from - entry->from < fan_cache_granules(entry->bytes))
            return (int)i;
    }
    return -1;
}

/* A free entry, made free if need be; -1 when all are pinned. */
static int fake_room(struct fake *fake)
{
    unsigned count = fake->control->entries, start = fake_random(fake, count);
    for (unsigned i = 0; i < count; i++) {
        if (fake->entries[i].state == FAN_ENTRY_FREE)
            return (int)i;
    }
    for (unsigned i = 0; i < count; i++) {
        if (fake_evict(fake, (start + i) % count))
            return (int)((start + i) % count);
    }
    return -1;
}

/* Brings a wanted block, or piece, into the cache. Its entry, or -1 when there is no room. */
static int fake_fetch(struct fake *fake, const struct fan_pin *pin)
{
    uint64_t file = pin->file, block = pin->block;
    uint32_t granule = fake->control->piecemeal ? pin->from : 0;
    int number = fake_room(fake);
    if (number < 0)
        return -1;
    struct fan_cache_entry *entry = &fake->entries[number];
    uint64_t id = (file << 8 >> 8) - 1, skip = (uint64_t)granule * FAN_CACHE_GRANULE_BYTES;
    uint64_t from = block * FAN_CACHE_BLOCK_BYTES + skip;
    uint64_t rest = fake->control->stored_bytes(id) - from, most = FAN_CACHE_BLOCK_BYTES - skip;
    if (fake->control->piecemeal && most > 5 * FAN_CACHE_GRANULE_BYTES)
        most = (1 + fake_random(fake, 5)) * FAN_CACHE_GRANULE_BYTES;
    __atomic_store_n(&entry->state, FAN_ENTRY_FILLING, __ATOMIC_SEQ_CST);
    entry->bytes = (uint32_t)(rest < most ? rest : most);
    __atomic_store_n(&entry->from, granule, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->block, block, __ATOMIC_RELAXED);
    fake->control->fill((uint8_t *)fake->base + entry->offset, id, from, entry->bytes);
    __atomic_store_n(&entry->state, FAN_ENTRY_READY, __ATOMIC_SEQ_CST);
    fake_rename(fake, entry, 0, (uint32_t)number + 1);
    return number;
}

static void fake_settle(struct fan_pin *pin, uint32_t state)
{
    __atomic_store_n(&pin->state, state, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pin->waiters, __ATOMIC_SEQ_CST) > 0)
        syscall(SYS_futex, &pin->state, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

/* What a client must not fall for. */
static void fake_lie(struct fake *fake, struct fan_pin *pin, unsigned number)
{
    struct fan_cache_entry *entry = &fake->entries[number];
    enum lie lie = fake->control->lie;
    if (lie == LIE_OFFSET)
        entry->offset = fake->header->segment_bytes - 1;
    if (lie == LIE_KEY)
        entry->block++;
    if (lie == LIE_SHORT)
        entry->bytes = 1;
    if (lie == LIE_ENTRY)
        pin->entry = UINT32_MAX;
    fake_settle(pin, lie == LIE_FREED ? FAN_PIN_FREE : FAN_PIN_HELD);
}

/* Answers a wanted pin. false: not yet. */
static bool fake_grant(struct fake *fake, struct fan_pin *pin)
{
    uint64_t id = (pin->file << 8 >> 8) - 1;
    if (fake->control->silent || fake_random(fake, fake->control->patience + 1) > 0)
        return false;
    bool lost = id == fake->control->lost_id, damaged = id == fake->control->damaged_id;
    if (damaged || lost) {
        bool is_damage = damaged && (!lost || pin->block > 0);
        __atomic_store_n(&pin->error, is_damage ? EIO : EREMOTEIO, __ATOMIC_RELAXED);
        fake_settle(pin, FAN_PIN_FAILED);
        return true;
    }
    int number = fake_find(fake, pin);
    if (number < 0)
        number = fake_fetch(fake, pin);
    if (number < 0)
        return false;
    __atomic_store_n(&pin->entry, (uint32_t)number, __ATOMIC_RELAXED);
    if (fake->control->lie != HONEST)
        fake_lie(fake, pin, (unsigned)number);
    else
        fake_settle(pin, FAN_PIN_HELD);
    return true;
}

/* Looks only at sessions that said they want something. */
static void fake_serve(struct fake *fake)
{
    uint64_t said = __atomic_exchange_n(&fake->header->wanted_sessions[0], 0, __ATOMIC_SEQ_CST);
    for (unsigned i = 0; i < FAKE_SESSIONS; i++) {
        struct fan_session *session = &fake->sessions[i];
        if ((said >> i & 1) && __atomic_exchange_n(&session->wanted, 0, __ATOMIC_SEQ_CST))
            fake->wanted[i] = true;
        bool left = false;
        for (unsigned j = 0; fake->wanted[i] && j < FAN_SESSION_PINS; j++) {
            struct fan_pin *pin = &session->pins[j];
            if (__atomic_load_n(&pin->state, __ATOMIC_SEQ_CST) != FAN_PIN_WANTED)
                continue;
            atomic_fetch_add(&fake->control->wants, 1);
            left = !fake_grant(fake, pin) || left;
        }
        fake->wanted[i] = left;
    }
}

/* Clears what is pinned, and takes the blocks away. */
static void fake_forget(struct fake *fake)
{
    for (unsigned i = 0; i < FAKE_SESSIONS * FAN_SESSION_PINS; i++) {
        struct fan_pin *pin = &fake->sessions[i / FAN_SESSION_PINS].pins[i % FAN_SESSION_PINS];
        uint32_t held = FAN_PIN_HELD;
        __atomic_compare_exchange_n(&pin->state, &held, FAN_PIN_FREE, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    }
    for (unsigned i = 0; i < fake->control->entries; i++)
        fake_evict(fake, i);
}

/* Frees the places of what a client closed, as the node daemon does. */
static void fake_take_closed(struct fan_session *session)
{
    for (unsigned j = 0; j < FAN_SESSION_FILES; j++) {
        uint64_t *word = &session->closed[j / 64], bit = UINT64_C(1) << j % 64;
        if ((__atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST) & bit) != 0)
            __atomic_store_n(&session->files[j], 0, __ATOMIC_SEQ_CST);
    }
}

static void fake_count_files(struct fake *fake)
{
    unsigned count = 0;
    for (unsigned i = 0; i < FAKE_SESSIONS; i++) {
        fake_take_closed(&fake->sessions[i]);
        for (unsigned j = 0; fake->links[i] >= 0 && j < FAN_SESSION_FILES; j++)
            count += __atomic_load_n(&fake->sessions[i].files[j], __ATOMIC_SEQ_CST) != 0;
    }
    atomic_store(&fake->control->open_files, count);
}

static void fake_sleep(struct fake *fake)
{
    const struct timespec limit = {.tv_nsec = 1000000};
    uint32_t seen = __atomic_load_n(&fake->header->doorbell, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fake->header->sleeping, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&fake->header->wanted_sessions[0], __ATOMIC_SEQ_CST) == 0)
        syscall(SYS_futex, &fake->header->doorbell, FUTEX_WAIT, seen, &limit, NULL, 0);
    __atomic_store_n(&fake->header->sleeping, 0, __ATOMIC_SEQ_CST);
}

/* Listens in `directory`. Its path may be too long for a socket address. */
static int fake_listen(const char *directory)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "sock"};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(chdir(directory) == 0);
    unlink("sock");
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(listener, 16) == 0);
    CHECK(chdir("..") == 0);
    return listener;
}

/* The daemon's process: serves until it is killed, or its parent ends. */
static void fake_run(struct control *control, int listener)
{
    static struct fake fake;
    fake = (struct fake){.control = control, .listener = listener, .seed = 7};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fake_map(&fake);
    for (;;) {
        fake_sockets(&fake);
        fake_serve(&fake);
        fake_count_files(&fake);
        if (control->evict_always)
            fake_evict(&fake, fake_random(&fake, control->entries));
        if (control->forget && fake_random(&fake, 300) == 0)
            fake_forget(&fake);
        if (!control->sleepless)
            fake_sleep(&fake);
    }
}
