/*
 * The cache segment: blocks of packs that lie on other nodes, shared by the node daemon and its
 * clients. A memory file: the daemon makes it and hands its descriptor to each client that asks for
 * a session, so it disappears with its last user. One thread of the daemon writes all of it, except
 * a session's pins and open files, which its client writes.
 *
 *     header | sessions | buckets | entries | data (blocks, in granules)
 *
 * A client reads a block only while one of its pins is HELD and names the block's entry, and only
 * if it saw the entry READY *after* it set the pin to HELD. The daemon takes an entry away only if
 * it saw no pin that names it *after* it set the entry to EVICTING. Both sides use sequentially
 * consistent accesses for these four, so one of them always sees the other. A pin is a place in
 * memory and not a count, so the daemon can clear the pins of a dead client, whatever the client
 * was doing; and others can clear entries, pins and blocks, in this order, of a dead daemon
 * (fanstore/node/core.py).
 */
#pragma once

#include <stdint.h>


#define FAN_CACHE_MAGIC "FANCACH\n"

/* cffi: begin */
enum {
    FAN_CACHE_VERSION = 9,
    FAN_CACHE_LAYOUT_ID = 0x46430009,
    FAN_CACHE_GRANULE_BYTES = 4096,
    FAN_CACHE_BLOCK_BYTES = 1048576, /* no more of a remote file is fetched at once */
    FAN_BLOCK_GRANULES = 256,        /* granules of a block */
    FAN_CACHE_WAYS = 8,
    FAN_SESSIONS_MAX = 4096,
    FAN_SESSION_PINS = 64,
    FAN_QUESTION_TEXT_BYTES = 1896,
    FAN_SESSION_HINTS = 16,
    FAN_SESSION_FILES = 512,
    FAN_SESSION_WAYS = 16 /* the number of places in `files` that one file may have */
};

enum fan_session_state {
    FAN_SESSION_FREE = 0,
    FAN_SESSION_LIVE = 1
};

/* The client changes FREE -> CLAIMED -> HELD or WANTED, and back to FREE. The daemon changes WANTED
 * -> HELD or FAILED, and then wakes the futex on `state`. */
enum fan_pin_state {
    FAN_PIN_FREE = 0,
    FAN_PIN_CLAIMED = 1,
    FAN_PIN_HELD = 2,
    FAN_PIN_WANTED = 3,
    FAN_PIN_FAILED = 4
};

/* The client changes FREE -> CLAIMED -> GIVEN. The daemon changes GIVEN -> FREE once it has taken
 * the hint. */
enum fan_hint_state { FAN_HINT_FREE = 0, FAN_HINT_CLAIMED = 1, FAN_HINT_GIVEN = 2 };

enum fan_entry_state {
    FAN_ENTRY_FREE = 0,
    FAN_ENTRY_FILLING = 1,
    FAN_ENTRY_READY = 2,
    FAN_ENTRY_EVICTING = 3,
    FAN_ENTRY_QUARANTINED = 4
};

/* `file`: the mount in the highest 8 bits, the record id + 1 in the others. `block`: which block of
 * the file's stored bytes. from: the granule of the block that the client needs first; the answer
 * is an entry that has it. count: how many granules from there on the client reads; 0: it reads the
 * file from front to back, so the rest of the block, or all of it, should come. error: the errno of
 * a FAILED pin: EIO (every copy of the content is damaged), or EREMOTEIO (no rank with the content
 * answers: read the shared file system). source: for a block that was WANTED and is HELD, where it
 * came from: an enum fan_stall_source. */
struct fan_pin {
    uint32_t state;
    uint32_t entry;
    uint64_t file;
    uint64_t block;
    int32_t error;
    uint32_t waiters; /* clients that sleep on `state`; if 0, the daemon wakes no client */
    uint32_t source;
    uint32_t from;
    uint32_t count;
    uint32_t reserved[5];
};

/* A hint: the client will soon read `count` blocks of a file, from `block` on. It does not wait for
 * them and gets no answer. */
struct fan_hint {
    uint32_t state;
    uint32_t reserved;
    uint64_t file;
    uint64_t block;
    uint64_t count;
};

/* files: the client's open files, 0 in free places. The client adds a file, and sets its bit of
 * `closed` when it closes the file; the daemon then clears the bit and frees the place. A file for
 * which no place is free is not recorded: its blocks may be evicted while it is open, and stay
 * after its close until room is needed. wanted: the client sets it after a pin becomes WANTED, and
 * the daemon clears it. hinted: likewise, after a hint becomes GIVEN. */
struct fan_session {
    uint32_t state;
    uint32_t wanted;
    uint32_t pid;
    uint32_t hinted;
    uint32_t reserved[12];
    uint64_t closed[8]; /* one bit for each place in `files` */
    struct fan_pin pins[FAN_SESSION_PINS];
    uint64_t files[FAN_SESSION_FILES];
    struct fan_hint hints[FAN_SESSION_HINTS];
};

struct fan_bucket {
    uint32_t entries[FAN_CACHE_WAYS]; /* entry number + 1; 0: none */
};

/* A block, or a piece of one: the `bytes` from granule `from` of the block on. A block is found in
 * one bucket; a piece is found in a bucket for each of its granules (fan_cache_key). offset: of the
 * data, from the start of the segment. touched: clients set it (relaxed) at a hit, under policies
 * that need to know of hits. */
struct fan_cache_entry {
    uint32_t state;
    uint32_t bytes;
    uint64_t file;
    uint64_t block;
    uint64_t offset;
    uint32_t touched;
    uint32_t from;
    uint32_t reserved[6];
};

/* doorbell: a futex; clients increment it after they set `wanted`, and wake it if `sleeping` is
 * set. follows_opens: whether clients should note their open files. state: SERVING until the daemon
 * ends. bucket_count is a power of two. */
struct fan_cache_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t layout_id;
    uint64_t segment_bytes;
    uint64_t sessions_offset;
    uint64_t buckets_offset;
    uint64_t entries_offset;
    uint64_t data_offset;
    uint32_t session_count;
    uint32_t bucket_count;
    uint32_t entry_count;
    uint32_t state;
    uint32_t policy;
    uint32_t doorbell;
    uint32_t sleeping;
    uint32_t follows_opens;
    uint64_t resident_bytes;
    uint64_t peak_resident_bytes;
    uint64_t wanted_sessions[64]; /* a bit for each session: clients set it */
    uint32_t hinted;              /* clients set it with `hinted` of a session */
    uint32_t reserved[15];
};
/* cffi: end */

/* Returns how many granules a block of so many bytes takes. */
static inline uint64_t fan_cache_granules(uint64_t bytes)
{
    return (bytes + FAN_CACHE_GRANULE_BYTES - 1) / FAN_CACHE_GRANULE_BYTES;
}

/* Returns mount and record as one word, which is never 0. */
static inline uint64_t fan_cache_file(uint32_t mount, uint64_t record)
{
    return (uint64_t)mount << 56 | (record + 1);
}

static inline uint32_t fan_cache_mount(uint64_t file)
{
    return (uint32_t)(file >> 56);
}

static inline uint64_t fan_cache_record(uint64_t file)
{
    return (file & ((UINT64_C(1) << 56) - 1)) - 1;
}

/* Returns the number that stands for a granule of a block in fan_cache_hash; the block's own number
 * if `granule` is FAN_BLOCK_GRANULES. */
static inline uint64_t fan_cache_key(uint64_t block, uint32_t granule)
{
    return granule == FAN_BLOCK_GRANULES ? block : block ^ (uint64_t)(granule + 1) << 48;
}

/* Returns the hash of a block or, with its key, of a granule. Its lowest bits are the number of the
 * bucket. */
static inline uint64_t fan_cache_hash(uint64_t file, uint64_t block)
{
    uint64_t x = (file ^ block * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    return x ^ x >> 29;
}

/* Returns the first of the places in `files` that a file may have. */
static inline unsigned fan_session_place(uint64_t file)
{
    unsigned sets = FAN_SESSION_FILES / FAN_SESSION_WAYS;
    return (unsigned)(fan_cache_hash(file, 0) % sets) * FAN_SESSION_WAYS;
}
