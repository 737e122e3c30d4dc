#include "remote.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <time.h>

#include "../../common/sys.h"
#include "../files/filetable.h"
#include "../job/jobsocket.h"
#include "../machine/copy.h"
#include "session.h"

#define MILLISECOND_NS INT64_C(1000000)
#define CHECK_NS (100 * MILLISECOND_NS)       /* between checks whether the daemon lives */
#define PATIENCE_NS (900000 * MILLISECOND_NS) /* longest wait without any progress */
#define NO_PIN_NS (10000 * MILLISECOND_NS)
#define NO_PIN_STEP_NS (MILLISECOND_NS / 5)

enum {
    WINDOW = 8,       /* blocks requested at once */
    SPINS = 200,      /* checks of a pin before its thread sleeps */
    PART_LEAST = 4,   /* granules: a shorter message costs as much time */
    NEAR_BYTES = 4096 /* how far behind or before the last read the next one may begin */
};

/* A part of a read that is in one block: the file's stored bytes from `at` to before `end`, and the
 * pin that is used for it. */
struct wanted {
    struct fan_pin *pin;
    uint64_t at;
    uint64_t end;
};

/* One read: its bytes are copied to `to` or, if `span` is not NULL, pinned for it. in_order: blocks
 * that are not in the cache should come whole. error: the first error, or EIO; requested blocks are
 * still waited for. lost: nothing is waited for any more. waited_ns: how long it waited, apart from
 * copying; source: where the block came from for which it waited last. */
struct transfer {
    struct fan_cache *cache;
    uint64_t file;
    struct fan_span *span;
    char *to;
    uint64_t offset;
    uint64_t bytes;
    int error;
    bool lost;
    bool in_order;
    unsigned pending;
    enum fan_stall_source source;
    int64_t waited_ns;
    struct wanted window[WINDOW];
};

/* Records an error. -EIO overrides others, because a damaged file must not be read from the shared
 * file system. */
static void fail(struct transfer *transfer, int error)
{
    if (transfer->error == 0 || error == -EIO)
        transfer->error = error;
}

/* Gives up the read, because the daemon has ended or breaks the protocol. Leaves the pins as they
 * are. */
static void give_up(struct transfer *transfer)
{
    fan_session_end(transfer->cache->session->pins);
    transfer->pending = 0;
    transfer->lost = true;
    fail(transfer, -EREMOTEIO);
}

/* Frees abandoned pins that have been answered since. */
static void reap(struct fan_cache *cache)
{
    uint64_t left = atomic_load(&cache->abandoned);
    for (; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctzll(left);
        uint64_t bit = UINT64_C(1) << i;
        struct fan_pin *pin = &cache->session->pins[i];
        if ((atomic_fetch_and(&cache->abandoned, ~bit) & bit) == 0)
            continue; /* another thread frees it */
        if (fan_pin_state(pin) == FAN_PIN_WANTED)
            atomic_fetch_or(&cache->abandoned, bit);
        else
            fan_pin_free(pin);
    }
}

/* Claims a free pin; returns NULL if none is free. Threads start to search at different pins. */
static struct fan_pin *claim(struct fan_cache *cache)
{
    static atomic_uint threads;
    static __thread unsigned start;
    if (start == 0)
        start = 1 + WINDOW * atomic_fetch_add(&threads, 1);
    if (__builtin_expect(atomic_load_explicit(&cache->abandoned, memory_order_relaxed) != 0, 0))
        reap(cache);
    for (unsigned i = 0; i < FAN_SESSION_PINS; i++) {
        struct fan_pin *pin = &cache->session->pins[(start + i) % FAN_SESSION_PINS];
        if (fan_pin_claim(pin))
            return pin;
    }
    return NULL;
}

static void count_bytes(enum fan_stall_source source, uint64_t bytes)
{
    FAN_COUNT(remote_bytes, bytes);
    fan_trace_bytes(source, bytes);
}

/* Returns the number of the granule, in its block, that has a byte. */
static uint32_t granule_of(uint64_t offset)
{
    return (uint32_t)(offset % FAN_CACHE_BLOCK_BYTES / FAN_CACHE_GRANULE_BYTES);
}

/* Copies what a pinned entry has of a part of the read; or makes it the span, whose bytes must all
 * be in one entry. Returns whether something is left to read; the pin is then claimed for it, and
 * otherwise free, unless it is the span's or the session is lost. */
static bool take(struct transfer *transfer, struct wanted *wanted, enum fan_stall_source source)
{
    struct fan_cache *cache = transfer->cache;
    struct fan_pin *pin = wanted->pin;
    uint32_t number = fan_pin_entry(pin);
    uint64_t block = wanted->at / FAN_CACHE_BLOCK_BYTES, start, stored, end = wanted->end;
    const struct fan_cache_entry *entry =
        number < cache->entry_count ? &cache->entries[number] : NULL;
    const char *data = entry != NULL && fan_entry_names(entry, transfer->file, block)
                           ? fan_cache_data(cache, entry, &start, &stored)
                           : NULL;
    uint64_t skip = data != NULL ? wanted->at - block * FAN_CACHE_BLOCK_BYTES - start : 0;
    if (data == NULL || skip >= stored) { /* also if `at` is before its first byte */
        give_up(transfer);
        return false;
    }
    data += skip;
    if (end - wanted->at > stored - skip)
        end = wanted->at + stored - skip;
    if (transfer->span != NULL && end == wanted->end) {
        *transfer->span = (struct fan_span){
            .at = data, .bytes = end - wanted->at, .pin = pin, .entry = number, .source = source};
        return false;
    }
    int rc = transfer->span != NULL
                 ? -EAGAIN
                 : fan_copy(transfer->to + (wanted->at - transfer->offset), data, end - wanted->at);
    if (!fan_pin_still_held(pin, number)) {
        give_up(transfer);
        return false;
    }
    if (rc != 0)
        fail(transfer, rc);
    else
        count_bytes(source, end - wanted->at);
    wanted->at = end;
    bool more = rc == 0 && end < wanted->end;
    if (more)
        fan_pin_keep(pin);
    else
        fan_pin_free(pin);
    return more;
}

/* Returns whether the next byte of a part is in the cache; its entry is then pinned. */
static bool pin_cached(struct transfer *transfer, const struct wanted *wanted)
{
    struct fan_cache *cache = transfer->cache;
    uint64_t block = wanted->at / FAN_CACHE_BLOCK_BYTES;
    uint32_t granule = granule_of(wanted->at);
    struct fan_cache_entry *entry = fan_cache_find(cache, transfer->file, block, granule);
    if (entry == NULL)
        return false;
    fan_pin_hold(wanted->pin, (uint32_t)(entry - cache->entries));
    if (!fan_entry_is(entry, transfer->file, block, granule))
        return false;
    fan_entry_touch(entry);
    return true;
}

/* Requests the rest of a part from the daemon. */
static void request(struct transfer *transfer, const struct wanted *wanted)
{
    uint32_t count = 0;
    if (!transfer->in_order)
        count = granule_of(wanted->end - 1) - granule_of(wanted->at) + 1;
    if (!transfer->in_order && count < PART_LEAST)
        count = PART_LEAST;
    FAN_COUNT(cache_misses, 1);
    int64_t start = fan_clock_ns();
    fan_pin_part(wanted->pin, granule_of(wanted->at), count);
    fan_cache_want(transfer->cache, wanted->pin); /* before the next ones: an idle daemon begins */
    transfer->waited_ns += fan_clock_ns() - start;
    transfer->window[transfer->pending++] = *wanted;
}

/* Copies what is in the cache of a part whose pin is claimed, and requests what is not. */
static void go_on(struct transfer *transfer, struct wanted wanted)
{
    do {
        fan_pin_name(wanted.pin, transfer->file, wanted.at / FAN_CACHE_BLOCK_BYTES);
        if (!pin_cached(transfer, &wanted)) {
            request(transfer, &wanted);
            return;
        }
        FAN_COUNT(cache_hits, 1);
    } while (take(transfer, &wanted, FAN_STALL_CACHE));
}

/* Handles the answer for a requested block: HELD or FAILED, unless the daemon took this process for
 * dead. */
static void finish_wanted(struct transfer *transfer, struct wanted wanted)
{
    uint32_t state = fan_pin_state(wanted.pin);
    if (state == FAN_PIN_HELD && transfer->error == 0) {
        transfer->source = fan_pin_source(wanted.pin);
        if (take(transfer, &wanted, transfer->source))
            go_on(transfer, wanted);
    } else if (state == FAN_PIN_HELD) {
        fan_pin_free(wanted.pin);
    } else if (state == FAN_PIN_FAILED) {
        fail(transfer, fan_pin_error(wanted.pin) == EIO ? -EIO : -EREMOTEIO);
        fan_pin_free(wanted.pin);
    } else {
        give_up(transfer);
    }
}

/* Finishes blocks that were answered, in any order, because a cache smaller than the window needs
 * their room for the others. Returns whether there was any. */
static bool finish_answered(struct transfer *transfer)
{
    struct wanted window[WINDOW];
    unsigned count = transfer->pending;
    bool any = false;
    memcpy(window, transfer->window, sizeof(window));
    transfer->pending = 0;
    for (unsigned i = 0; i < count && !transfer->lost; i++) {
        if (fan_pin_state(window[i].pin) == FAN_PIN_WANTED) {
            transfer->window[transfer->pending++] = window[i];
            continue;
        }
        finish_wanted(transfer, window[i]);
        any = true;
    }
    return any;
}

/* Stops waiting for the requested pins; `reap` frees them when they are answered. */
static void abandon(struct transfer *transfer)
{
    for (unsigned i = 0; i < transfer->pending; i++) {
        long number = transfer->window[i].pin - transfer->cache->session->pins;
        atomic_fetch_or(&transfer->cache->abandoned, UINT64_C(1) << number);
    }
    transfer->pending = 0;
    fail(transfer, -EREMOTEIO);
}

static bool spin(const struct fan_pin *pin)
{
    for (unsigned i = 0; i < SPINS; i++) {
        if (fan_pin_state(pin) != FAN_PIN_WANTED)
            return true;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    return false;
}

/* Waits until at least one requested block is finished, or none is left. Sleeps on the oldest pin;
 * if it also waits for others, only briefly at a time. */
static void finish_some(struct transfer *transfer)
{
    int64_t start = fan_clock_ns(), now = start, checked = start;
    while (transfer->pending > 0 && !finish_answered(transfer)) {
        struct fan_pin *oldest = transfer->window[0].pin;
        bool answered = spin(oldest);
        if (!answered)
            fan_cache_wait(oldest, transfer->pending > 1 ? MILLISECOND_NS : CHECK_NS);
        now = fan_clock_ns();
        if (answered)
            continue;
        if (now - start > PATIENCE_NS)
            abandon(transfer);
        if (now - checked < CHECK_NS)
            continue;
        checked = now;
        if (!fan_session_check(transfer->cache))
            give_up(transfer);
    }
    transfer->waited_ns += now - start;
}

/* Sleeps by a futex that nobody wakes: a program under a seccomp filter may not make other calls
 * that sleep. */
static void nap(void)
{
    static uint32_t never;
    const struct timespec step = {.tv_nsec = NO_PIN_STEP_NS};
    FAN_SYS(futex, &never, FUTEX_WAIT_PRIVATE, 0, &step);
}

/* Waits briefly, because other threads of this process use all pins. */
static void wait_for_pin(struct transfer *transfer)
{
    int64_t start = fan_clock_ns();
    nap();
    transfer->source = FAN_STALL_CACHE;
    transfer->waited_ns += fan_clock_ns() - start;
}

/* Claims a pin; if none is free, waits. First finishes this read's own blocks, because other
 * threads may wait for their pins. Returns NULL if the read has failed. */
static struct fan_pin *claim_or_wait(struct transfer *transfer)
{
    int64_t until_ns = 0;
    for (;;) {
        struct fan_pin *pin = claim(transfer->cache);
        if (pin != NULL)
            return pin;
        if (transfer->pending > 0) {
            finish_some(transfer);
            continue;
        }
        if (until_ns == 0)
            until_ns = fan_clock_ns() + NO_PIN_NS;
        if (fan_clock_ns() > until_ns) {
            fail(transfer, -EREMOTEIO);
            return NULL;
        }
        wait_for_pin(transfer);
    }
}

/* Reads the part of one block. */
static void start_part(struct transfer *transfer, uint64_t at, uint64_t end)
{
    while (transfer->pending == WINDOW) /* one that had a part of its bytes is requested again */
        finish_some(transfer);
    struct fan_pin *pin = claim_or_wait(transfer);
    if (pin != NULL)
        go_on(transfer, (struct wanted){pin, at, end});
}

static uint64_t key_of(const struct fan_file *file)
{
    return fan_cache_file((uint32_t)(file->view - fan_job.views), file->id);
}

/* Returns whether the file is registered in the present session. `registered`: the epoch of a
 * session and, in the low half, the place among its open files + 1, or 0 if none was free. Another
 * epoch is an ancestor's. */
static bool is_registered(const struct fan_cache *cache, uint64_t registered)
{
    return registered >> 32 == cache->epoch;
}

/* Registers a file at its first read. A read during a close on another thread may leave the file
 * registered; the next open of the same fan_file drops that (fan_remote_open). */
static void register_file(struct fan_cache *cache, struct fan_file *file)
{
    uint64_t before = atomic_load_explicit(&file->registered, memory_order_relaxed);
    if (__builtin_expect(is_registered(cache, before), 1))
        return;
    int place = fan_cache_note_file(cache, key_of(file));
    uint64_t now = (uint64_t)cache->epoch << 32 | (uint64_t)(place + 1);
    if (!atomic_compare_exchange_strong(&file->registered, &before, now) && place >= 0)
        fan_cache_drop_file(cache, (unsigned)place);
}

void fan_remote_close(struct fan_file *file)
{
    struct fan_cache *cache = fan_session_now();
    uint64_t registered = atomic_exchange(&file->registered, 0);
    uint32_t place = (uint32_t)registered;
    if (cache != NULL && is_registered(cache, registered) && place > 0)
        fan_cache_drop_file(cache, place - 1);
}

void fan_remote_open(struct fan_file *file)
{
    struct fan_cache *cache = fan_session();
    FAN_COUNT(remote_opens, 1);
    for (unsigned i = 0; i < FAN_FILE_ENDS; i++)
        atomic_store_explicit(&file->ends[i], 0, memory_order_relaxed);
    if (atomic_load_explicit(&file->registered, memory_order_relaxed) != 0)
        fan_remote_close(file);
    if (cache != NULL)
        register_file(cache, file);
}

void fan_remote_hint(const struct fan_file *file, uint64_t offset, uint64_t bytes)
{
    struct fan_cache *cache = fan_session_now();
    uint64_t first = offset / FAN_CACHE_BLOCK_BYTES;
    uint64_t last = (offset + bytes - 1) / FAN_CACHE_BLOCK_BYTES;
    while (cache != NULL && first <= last && fan_cache_find(cache, key_of(file), first, 0) != NULL)
        first++;
    if (cache != NULL && first <= last)
        fan_cache_hint(cache, key_of(file), first, last - first + 1);
}

/* Returns whether a read goes on where one of the last few reads of the open file ended, or begins
 * at the start of the file. Several ends are kept for readers that alternate between places: a
 * compressed file's table and blocks, or two threads. They are only a guess: relaxed. */
static bool follows(struct fan_file *file, uint64_t offset, uint64_t bytes)
{
    _Atomic uint64_t *at = &file->ends[offset / FAN_CACHE_BLOCK_BYTES % FAN_FILE_ENDS];
    bool near = false;
    for (unsigned i = 0; i < FAN_FILE_ENDS && !near; i++) {
        uint64_t end = atomic_load_explicit(&file->ends[i], memory_order_relaxed);
        near = offset + NEAR_BYTES >= end && offset <= end + NEAR_BYTES;
        at = near ? &file->ends[i] : at;
    }
    atomic_store_explicit(at, offset + bytes, memory_order_relaxed);
    return near;
}

static int run(struct fan_file *file, struct transfer *transfer)
{
    struct fan_cache *cache = fan_session();
    if (cache == NULL)
        return -EREMOTEIO;
    if (transfer->bytes == 0)
        return 0;
    register_file(cache, file);
    transfer->cache = cache;
    transfer->file = key_of(file);
    transfer->in_order = follows(file, transfer->offset, transfer->bytes) ||
                         file->record->stored_size <= FAN_CACHE_BLOCK_BYTES;
    uint64_t end = transfer->offset + transfer->bytes, next;
    for (uint64_t at = transfer->offset; at < end && transfer->error == 0; at = next) {
        next = at - at % FAN_CACHE_BLOCK_BYTES + FAN_CACHE_BLOCK_BYTES;
        start_part(transfer, at, next < end ? next : end);
    }
    while (transfer->pending > 0)
        finish_some(transfer);
    if (transfer->waited_ns > 0)
        fan_trace_stall(transfer->source, file->view->number, file->id, transfer->waited_ns);
    return transfer->error;
}

int fan_remote_read(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    struct transfer transfer = {
        .source = FAN_STALL_RANK, .to = to, .offset = offset, .bytes = bytes};
    return run(file, &transfer);
}

int fan_remote_pin(struct fan_file *file, uint64_t offset, uint64_t bytes, struct fan_span *span)
{
    struct transfer transfer = {
        .source = FAN_STALL_RANK, .span = span, .offset = offset, .bytes = bytes};
    return run(file, &transfer);
}

bool fan_remote_unpin(const struct fan_span *span)
{
    if (!fan_pin_still_held(span->pin, span->entry)) {
        fan_session_end(span->pin);
        return false;
    }
    fan_pin_free(span->pin);
    count_bytes(span->source, span->bytes);
    return true;
}
