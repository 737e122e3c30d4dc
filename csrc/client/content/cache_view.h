/*
 * The cache segment as a client sees it: checked, mapped, and every access to what it shares with
 * the daemon. No other file of the client touches those fields.
 *
 * Two orders must hold (cache_format.h). A client sets its pin to HELD, then looks at the entry.
 * The daemon sets the entry to EVICTING, then looks at the pins. All four accesses are sequentially
 * consistent. So are, on both futexes, "wanted, then: is it asleep?" and "asleep, then: is anything
 * wanted?".
 */
#ifndef FAN_CLIENT_CACHE_VIEW_H
#define FAN_CLIENT_CACHE_VIEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../../format/cache_format.h"
#include "../../format/trace_format.h"
#include "../../format/shm_format.h"

/* A mapped cache and this process's session in it. The counts were checked once and are kept here:
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
    uint32_t number; /* of the session */
    uint32_t epoch;  /* which of this process's sessions, its ancestors' counted */
    _Atomic uint64_t abandoned; /* a bit a pin that nobody waits for any more */
};

/* Maps the segment in `fd` (which stays the caller's) for session `number`. 0, -EPROTO when it is
 * not a cache segment or points outside itself, or -errno. */
int fan_cache_attach(struct fan_cache *cache, int fd, uint32_t number);

/* Unmaps it. */
void fan_cache_detach(struct fan_cache *cache);

/* The entry that a block is said to have, or NULL. To be looked at again once a pin is HELD. */
struct fan_cache_entry *fan_cache_find(const struct fan_cache *cache, uint64_t file,
                                       uint64_t block);

/* Where the block of a pinned entry lies, its bytes in `bytes`; NULL when that is not inside. */
const char *fan_cache_data(const struct fan_cache *cache, const struct fan_cache_entry *entry,
                           uint64_t *bytes);

/* Whether it is this block's. */
static inline bool fan_entry_names(const struct fan_cache_entry *entry, uint64_t file,
                                   uint64_t block)
{
    return __atomic_load_n(&entry->file, __ATOMIC_RELAXED) == file &&
           __atomic_load_n(&entry->block, __ATOMIC_RELAXED) == block;
}

/* Whether the entry is READY and holds this block. To be called once the pin is HELD; the block may
 * then be read. (Later the entry may be EVICTING for a moment, until the daemon sees the pin.) */
static inline bool fan_entry_is(const struct fan_cache_entry *entry, uint64_t file, uint64_t block)
{
    return __atomic_load_n(&entry->state, __ATOMIC_SEQ_CST) == FAN_ENTRY_READY &&
           fan_entry_names(entry, file, block);
}

/* For policies that ask for it; written once, so that hits share the line. */
static inline void fan_entry_touch(struct fan_cache_entry *entry)
{
    if (__atomic_load_n(&entry->touched, __ATOMIC_RELAXED) == 0)
        __atomic_store_n(&entry->touched, 1, __ATOMIC_RELAXED);
}

/* Whether it was free and is now the caller's. */
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

/* The daemon stored it before the state that the caller saw. */
static inline uint32_t fan_pin_entry(const struct fan_pin *pin)
{
    return __atomic_load_n(&pin->entry, __ATOMIC_RELAXED);
}

/* Where its block came from, once a wanted one is HELD. */
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

/* Pairs with the daemon's look at the pins after an entry is EVICTING. */
static inline void fan_pin_hold(struct fan_pin *pin, uint32_t entry)
{
    __atomic_store_n(&pin->entry, entry, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->state, FAN_PIN_HELD, __ATOMIC_SEQ_CST);
}

/* Whether a copy that was just made was made under this pin throughout: false when the daemon took
 * the session for dead. The fence keeps the copy before the look. */
static inline bool fan_pin_still_held(const struct fan_pin *pin, uint32_t entry)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return fan_pin_state(pin) == FAN_PIN_HELD && fan_pin_entry(pin) == entry;
}

/* The copy comes before it. */
static inline void fan_pin_free(struct fan_pin *pin)
{
    __atomic_store_n(&pin->state, FAN_PIN_FREE, __ATOMIC_RELEASE);
}

/* Asks the daemon for the block of a named pin. Wakes it when it sleeps. */
void fan_cache_want(struct fan_cache *cache, struct fan_pin *pin);

/* Tells the daemon that `count` blocks of a file will be read soon. Waits for nothing; forgotten
 * where the daemon has not taken the hints before it. */
void fan_cache_hint(struct fan_cache *cache, uint64_t file, uint64_t block, uint64_t count);

/* Sleeps until a pin is not WANTED, or `ns` have passed; may return early. */
void fan_cache_wait(struct fan_pin *pin, int64_t ns);

/* Enters `file` among the session's open files. Its place, or -1: there is none, or the daemon does
 * not want to know. */
int fan_cache_note_file(struct fan_cache *cache, uint64_t file);

/* Says that it is closed. The daemon looks by itself. */
void fan_cache_drop_file(struct fan_cache *cache, unsigned place);

static inline bool fan_cache_ended(const struct fan_cache *cache)
{
    return __atomic_load_n(&cache->header->state, __ATOMIC_RELAXED) == FAN_JOB_ENDED;
}

#endif
