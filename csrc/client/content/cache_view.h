/*
 * The client's side of the cache segment: checks it, maps it, and contains every access to the
 * fields that the client shares with the daemon. No other file of the client touches those fields.
 *
 * Two orders must hold (cache_format.h). A client sets its pin to HELD, then looks at the entry.
 * The daemon sets the entry to EVICTING, then looks at the pins. All four accesses are sequentially
 * consistent. So are, on both futexes, the pairs "set wanted, then look whether the other side
 * sleeps" and "go to sleep, then look whether anything is wanted".
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../format/cache_format.h"
#include "../../format/trace_format.h"
#include "../../format/shm_format.h"

/* A mapped cache and this process's session in it. The counts are copies that were checked once:
 * later changes of them in the segment have no effect. */
struct fan_cache {
    const char *base;
    uint64_t bytes;
    struct fan_cache_header *header;
    struct fan_session *session;
    struct fan_bucket *buckets;
    struct fan_cache_entry *entries;
    uint32_t bucket_mask;
    uint32_t entry_count;
    uint32_t number;            /* of the session, from the daemon */
    uint32_t epoch;             /* counts the sessions of this process and its ancestors */
    _Atomic uint64_t abandoned; /* one bit for each pin for which no thread waits any more */
};

/* Maps the segment in `fd`, which the caller still owns, for session `number`. Returns 0, -EPROTO
 * if it is not a cache segment or points outside itself, or -errno. */
int fan_cache_attach(struct fan_cache *cache, int fd, uint32_t number);

/* Returns the entry that seems to hold a granule of the block, alone or with others, or NULL. Check
 * the entry again once a pin is HELD. */
struct fan_cache_entry *fan_cache_find(const struct fan_cache *cache, uint64_t file, uint64_t block,
                                       uint32_t granule);

/* Returns the address of a pinned entry's bytes, and sets where in the block they begin and how
 * many there are; NULL if they are not inside the segment. */
const char *fan_cache_data(const struct fan_cache *cache, const struct fan_cache_entry *entry,
                           uint64_t *start, uint64_t *bytes);

/* Returns whether the entry belongs to this block of this file; does not look at the entry's state.
 */
static inline bool fan_entry_names(const struct fan_cache_entry *entry, uint64_t file,
                                   uint64_t block)
{
    return __atomic_load_n(&entry->file, __ATOMIC_RELAXED) == file &&
           __atomic_load_n(&entry->block, __ATOMIC_RELAXED) == block;
}

/* Returns whether the entry is READY and holds this granule of this block. Call it once the pin is
 * HELD; if true, the entry's bytes may be read. (Later the entry may be EVICTING for a moment,
 * until the daemon sees the pin.) */
static inline bool fan_entry_is(const struct fan_cache_entry *entry, uint64_t file, uint64_t block,
                                uint32_t granule)
{
    return __atomic_load_n(&entry->state, __ATOMIC_SEQ_CST) == FAN_ENTRY_READY &&
           fan_entry_names(entry, file, block) &&
           granule - __atomic_load_n(&entry->from, __ATOMIC_RELAXED) <
               fan_cache_granules(__atomic_load_n(&entry->bytes, __ATOMIC_RELAXED));
}

/* Marks the entry as used, for policies that need to know of hits. Writes only if it is not marked,
 * so that all CPUs can share the cache line. */
static inline void fan_entry_touch(struct fan_cache_entry *entry)
{
    if (__atomic_load_n(&entry->touched, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&entry->touched, 1, __ATOMIC_RELAXED);
}

/* Claims a free pin. Returns whether the pin was free and is now the caller's. */
static inline bool fan_pin_claim(struct fan_pin *pin)
{
    uint32_t expected = FAN_PIN_FREE;
    return __atomic_load_n(&pin->state, __ATOMIC_RELAXED) == FAN_PIN_FREE &&
           __atomic_compare_exchange_n(&pin->state, &expected, FAN_PIN_CLAIMED, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

static inline uint32_t fan_pin_state(const struct fan_pin *pin)
{
    return __atomic_load_n(&pin->state, __ATOMIC_SEQ_CST);
}

/* Returns the entry that a pin names. The daemon stored it before the state that the caller has
 * seen. */
static inline uint32_t fan_pin_entry(const struct fan_pin *pin)
{
    return __atomic_load_n(&pin->entry, __ATOMIC_RELAXED);
}

/* Returns where the block of a pin came from that was WANTED and is now HELD. */
static inline enum fan_stall_source fan_pin_source(const struct fan_pin *pin)
{
    uint32_t source = __atomic_load_n(&pin->source, __ATOMIC_RELAXED);
    return source < FAN_STALL_SOURCES ? (enum fan_stall_source)source : FAN_STALL_RANK;
}

static inline int fan_pin_error(const struct fan_pin *pin)
{
    return __atomic_load_n(&pin->error, __ATOMIC_RELAXED);
}

static inline void fan_pin_name(struct fan_pin *pin, uint64_t file, uint64_t block)
{
    __atomic_store_n(&pin->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->block, block, __ATOMIC_RELAXED);
}

/* Sets which granules of the block are wanted (cache_format.h). */
static inline void fan_pin_part(struct fan_pin *pin, uint32_t from, uint32_t count)
{
    __atomic_store_n(&pin->from, from, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->count, count, __ATOMIC_RELAXED);
}

/* Sets a pin to HELD. Pairs with the daemon's look at the pins after it has set an entry to
 * EVICTING. */
static inline void fan_pin_hold(struct fan_pin *pin, uint32_t entry)
{
    __atomic_store_n(&pin->entry, entry, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->state, FAN_PIN_HELD, __ATOMIC_SEQ_CST);
}

/* Returns whether this pin was HELD for the whole time of a copy that just ended: false if the
 * daemon took the session for dead. The fence orders the copy before this check. */
static inline bool fan_pin_still_held(const struct fan_pin *pin, uint32_t entry)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return fan_pin_state(pin) == FAN_PIN_HELD && fan_pin_entry(pin) == entry;
}

/* Ends the reading of a pin's entry, but keeps the pin for another one. Its two orders are those of
 * fan_pin_free and fan_pin_claim: the copy comes before it, and the next entry's number after it.
 */
static inline void fan_pin_keep(struct fan_pin *pin)
{
    __atomic_exchange_n(&pin->state, FAN_PIN_CLAIMED, __ATOMIC_ACQ_REL);
}

/* Frees a pin. The release store orders the copy before it. */
static inline void fan_pin_free(struct fan_pin *pin)
{
    __atomic_store_n(&pin->state, FAN_PIN_FREE, __ATOMIC_RELEASE);
}

/* Asks the daemon for the block that the pin names. Wakes the daemon if it sleeps. */
void fan_cache_want(struct fan_cache *cache, struct fan_pin *pin);

/* Tells the daemon that `count` blocks of a file will be read soon. Does not wait. The hint is
 * dropped if the daemon has not yet taken the hints before it. */
void fan_cache_hint(struct fan_cache *cache, uint64_t file, uint64_t block, uint64_t count);

/* Sleeps until the pin is no longer WANTED or `ns` have passed; may return early. */
void fan_cache_wait(struct fan_pin *pin, int64_t ns);

/* Adds `file` to the session's open files. Returns its place, or -1 if there is no free place or
 * the daemon does not follow opens. */
int fan_cache_note_file(struct fan_cache *cache, uint64_t file);

/* Marks the file at `place` as closed. The daemon finds the mark by itself. */
void fan_cache_drop_file(struct fan_cache *cache, unsigned place);

static inline bool fan_cache_ended(const struct fan_cache *cache)
{
    return __atomic_load_n(&cache->header->state, __ATOMIC_RELAXED) == FAN_JOB_ENDED;
}
