#include "cache_view.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "../../common/segment_check.h"
#include "../../common/sys.h"

/* Returns whether `count` entries at `offset` are in the segment, behind its header. */
static bool inside(uint64_t segment_bytes, uint64_t offset, uint64_t count, uint64_t entry_bytes)
{
    return offset >= sizeof(struct fan_cache_header) &&
           fan_segment_has(segment_bytes, offset, count, entry_bytes);
}

static bool is_cache(const struct fan_cache_header *header, uint64_t file_bytes, uint32_t number)
{
    uint64_t bytes = header->segment_bytes;
    return memcmp(header->magic, FAN_CACHE_MAGIC, sizeof(header->magic)) == 0 &&
           header->version == FAN_CACHE_VERSION && header->layout_id == FAN_CACHE_LAYOUT_ID &&
           bytes <= file_bytes && header->session_count <= FAN_SESSIONS_MAX &&
           number < header->session_count && header->bucket_count > 0 &&
           (header->bucket_count & (header->bucket_count - 1)) == 0 &&
           inside(bytes, header->sessions_offset, header->session_count,
                  sizeof(struct fan_session)) &&
           inside(bytes, header->buckets_offset, header->bucket_count,
                  sizeof(struct fan_bucket)) &&
           inside(bytes, header->entries_offset, header->entry_count,
                  sizeof(struct fan_cache_entry)) &&
           inside(bytes, header->data_offset, 0, 1);
}

int fan_cache_attach(struct fan_cache *cache, int fd, uint32_t number)
{
    struct fan_cache_header header;
    struct stat st;
    long rc = FAN_SYS(fstat, fd, &st);
    if (rc != 0)
        return (int)rc;
    if (fan_sys_pread(fd, &header, sizeof(header), 0) != sizeof(header) ||
        !is_cache(&header, (uint64_t)st.st_size, number))
        return -EPROTO;
    long at = fan_sys_mmap(NULL, header.segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fan_sys_failed(at))
        return (int)at;
    FAN_SYS(madvise, at, header.segment_bytes,
            MADV_DONTFORK); /* because a child has its own session */
    char *base = (char *)at;
    *cache = (struct fan_cache){
        .base = base,
        .bytes = header.segment_bytes,
        .header = (void *)base,
        .session = (struct fan_session *)(base + header.sessions_offset) + number,
        .buckets = (void *)(base + header.buckets_offset),
        .entries = (void *)(base + header.entries_offset),
        .bucket_mask = header.bucket_count - 1,
        .entry_count = header.entry_count,
        .number = number,
    };
    return 0;
}

/* Looks for a granule of a block in one bucket: that of the block, or that of the granule. */
static struct fan_cache_entry *find_in(const struct fan_cache *cache, uint64_t file, uint64_t block,
                                       uint32_t granule, uint64_t key)
{
    const struct fan_bucket *bucket =
        &cache->buckets[fan_cache_hash(file, key) & cache->bucket_mask];
    for (unsigned i = 0; i < FAN_CACHE_WAYS; i++) {
        uint32_t number = __atomic_load_n(&bucket->entries[i], __ATOMIC_ACQUIRE);
        if (number == 0 || number > cache->entry_count)
            continue;
        struct fan_cache_entry *entry = &cache->entries[number - 1];
        if (fan_entry_is(entry, file, block, granule))
            return entry;
    }
    return NULL;
}

struct fan_cache_entry *fan_cache_find(const struct fan_cache *cache, uint64_t file, uint64_t block,
                                       uint32_t granule)
{
    struct fan_cache_entry *entry = find_in(cache, file, block, granule, block);
    return entry != NULL ? entry
                         : find_in(cache, file, block, granule, fan_cache_key(block, granule));
}

const char *fan_cache_data(const struct fan_cache *cache, const struct fan_cache_entry *entry,
                           uint64_t *start, uint64_t *bytes)
{
    uint64_t offset = __atomic_load_n(&entry->offset, __ATOMIC_RELAXED);
    *start = (uint64_t)__atomic_load_n(&entry->from, __ATOMIC_RELAXED) * FAN_CACHE_GRANULE_BYTES;
    *bytes = __atomic_load_n(&entry->bytes, __ATOMIC_RELAXED);
    if (offset > cache->bytes || *bytes > cache->bytes - offset)
        return NULL;
    return cache->base + offset;
}

/* Wakes all threads that sleep on a word that processes share. */
static void wake(uint32_t *word)
{
    FAN_SYS(futex, word, FUTEX_WAKE, 1, NULL);
}

static void ring(struct fan_cache_header *header)
{
    __atomic_fetch_add(&header->doorbell, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&header->sleeping, __ATOMIC_SEQ_CST) != 0)
        wake(&header->doorbell);
}

/* Sets the mark of the session and then that of the header, after the wanted block was set; the
 * daemon clears them in the reverse order. */
static void note_session(struct fan_cache *cache)
{
    __atomic_store_n(&cache->session->wanted, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_or(&cache->header->wanted_sessions[cache->number / 64],
                      UINT64_C(1) << cache->number % 64, __ATOMIC_SEQ_CST);
}

void fan_cache_want(struct fan_cache *cache, struct fan_pin *pin)
{
    __atomic_store_n(&pin->error, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&pin->state, FAN_PIN_WANTED, __ATOMIC_SEQ_CST);
    note_session(cache);
    ring(cache->header);
}

static bool claim(struct fan_hint *hint)
{
    uint32_t expected = FAN_HINT_FREE;
    return __atomic_load_n(&hint->state, __ATOMIC_RELAXED) == FAN_HINT_FREE &&
           __atomic_compare_exchange_n(&hint->state, &expected, FAN_HINT_CLAIMED, false,
                                       __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

void fan_cache_hint(struct fan_cache *cache, uint64_t file, uint64_t block, uint64_t count)
{
    struct fan_hint *hint = cache->session->hints, *end = hint + FAN_SESSION_HINTS;
    while (hint < end && !claim(hint))
        hint++;
    if (hint == end)
        return;
    __atomic_store_n(&hint->file, file, __ATOMIC_RELAXED);
    __atomic_store_n(&hint->block, block, __ATOMIC_RELAXED);
    __atomic_store_n(&hint->count, count, __ATOMIC_RELAXED);
    __atomic_store_n(&hint->state, FAN_HINT_GIVEN, __ATOMIC_RELEASE);
    __atomic_store_n(&cache->session->hinted, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&cache->header->hinted, 1, __ATOMIC_SEQ_CST);
    ring(cache->header);
}

void fan_cache_wait(struct fan_pin *pin, int64_t ns)
{
    struct timespec limit = {ns / 1000000000, ns % 1000000000};
    /* Pairs with the daemon, which reads `waiters` after it has changed `state`. */
    __atomic_fetch_add(&pin->waiters, 1, __ATOMIC_SEQ_CST);
    FAN_SYS(futex, &pin->state, FUTEX_WAIT, FAN_PIN_WANTED, &limit);
    __atomic_fetch_sub(&pin->waiters, 1, __ATOMIC_SEQ_CST);
}

/* Takes back the place of a closed file that is still in it. Returns false if the daemon has
 * cleared the place already. */
static bool reopen(struct fan_session *session, unsigned place, uint64_t file)
{
    uint64_t *word = &session->closed[place / 64], bit = UINT64_C(1) << place % 64;
    if ((__atomic_load_n(word, __ATOMIC_RELAXED) & bit) == 0 ||
        __atomic_load_n(&session->files[place], __ATOMIC_RELAXED) != file ||
        (__atomic_fetch_and(word, ~bit, __ATOMIC_SEQ_CST) & bit) == 0)
        return false;
    if (__atomic_load_n(&session->files[place], __ATOMIC_SEQ_CST) == file)
        return true;
    __atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST); /* the bit now belongs to another file */
    return false;
}

static bool enter(struct fan_session *session, unsigned place, uint64_t file)
{
    uint64_t none = 0, *at = &session->files[place];
    return __atomic_load_n(at, __ATOMIC_RELAXED) == 0 &&
           __atomic_compare_exchange_n(at, &none, file, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

int fan_cache_note_file(struct fan_cache *cache, uint64_t file)
{
    unsigned first = fan_session_place(file);
    if (__atomic_load_n(&cache->header->follows_opens, __ATOMIC_RELAXED) == 0)
        return -1;
    for (unsigned place = first; place < first + FAN_SESSION_WAYS; place++) {
        if (reopen(cache->session, place, file) || enter(cache->session, place, file))
            return (int)place;
    }
    return -1;
}

void fan_cache_drop_file(struct fan_cache *cache, unsigned place)
{
    __atomic_fetch_or(&cache->session->closed[place / 64], UINT64_C(1) << place % 64,
                      __ATOMIC_SEQ_CST);
}
