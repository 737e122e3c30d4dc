#include "planned.h"

#include <errno.h>
#include <stdatomic.h>

#include "../../common/original.h"
#include "../../format/pack_format.h"
#include "../source/together.h"

/* The kernel counts file times in steps of at most 10 ms. */
enum { TICK_NS = 20000000 };

static uint64_t align(uint64_t at, uint64_t alignment)
{
    return (at + alignment - 1) & ~(alignment - 1);
}

/* A file system with times in whole seconds, such as Lustre, is seen by the time itself. */
static bool is_settled(const struct fan_scan_entry *entry, int64_t now_ns)
{
    int64_t step = entry->ctime_ns % 1000000000 == 0 ? 2000000000 : TICK_NS;
    return entry->ctime_ns < now_ns - step;
}

static uint64_t state_of(const struct fan_scan_entry *entry, int64_t now_ns)
{
    return is_settled(entry, now_ns) ? fan_file_state(entry->size, entry->mtime_ns, entry->ctime_ns)
                                     : 0;
}

static uint64_t place_after(uint64_t *end, uint64_t size)
{
    bool mapped = size >= FAN_MAP_THRESHOLD_BYTES;
    uint64_t at = align(*end, mapped ? FAN_MAP_ALIGN_BYTES : FAN_DATA_ALIGN_BYTES);
    *end = mapped ? align(at + size, FAN_MAP_ALIGN_BYTES) : at + size;
    return at;
}

void fan_places_after(uint64_t end, const uint64_t *sizes, uint64_t count, uint64_t *places)
{
    for (uint64_t i = 0; i < count; i++)
        places[i] = place_after(&end, sizes[i]);
    places[count] = end;
}

void fan_planned_places(const struct fan_scan_entry *entries, uint64_t count, const int64_t *packs,
                        const int64_t *first, int64_t now_ns, uint64_t *offsets, uint64_t *states,
                        uint64_t *ends)
{
    for (uint64_t i = 0; i < count; i++) {
        const struct fan_scan_entry *entry = &entries[i];
        if (S_ISREG(entry->mode) || S_ISDIR(entry->mode))
            states[i] = state_of(entry, now_ns);
        if (!S_ISREG(entry->mode) || entry->size == 0)
            continue;
        uint64_t own = (uint64_t)first[i];
        offsets[i] = own == i ? place_after(&ends[packs[i]], entry->size) : offsets[own];
    }
}

struct work {
    struct fan_index index;
    const char *source;
    const uint64_t *records;
    _Atomic uint64_t next;
    _Atomic uint64_t differs;
};

static bool is_as_listed(const struct work *work, uint64_t id)
{
    const struct fan_record *record = fan_index_record(&work->index, id);
    char path[PATH_MAX];
    struct stat st;
    return record != NULL && fan_original_path(&work->index, work->source, id, path) == 0 &&
           lstat(path, &st) == 0 && fan_stat_state(&st) == record->checksum;
}

/* Ends early once a record differs: nothing behind it matters. */
static void *compare(void *argument)
{
    struct work *work = argument;
    for (;;) {
        uint64_t at = atomic_fetch_add(&work->next, 1);
        uint64_t differs = atomic_load(&work->differs);
        if (at >= differs)
            return NULL;
        if (is_as_listed(work, work->records[at]))
            continue;
        while (at < differs && !atomic_compare_exchange_weak(&work->differs, &differs, at))
            ;
    }
}

int64_t fan_planned_differs(const void *base, uint64_t bytes, const char *source,
                            const uint64_t *records, uint64_t count)
{
    struct work work = {.source = source, .records = records};
    struct fan_fault fault;
    if (fan_index_attach(&work.index, base, bytes, &fault) != 0)
        return -EINVAL;
    atomic_init(&work.next, 0);
    atomic_init(&work.differs, count);
    fan_together(count, compare, &work);
    return (int64_t)atomic_load(&work.differs);
}
