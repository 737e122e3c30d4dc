#include "intern.h"

#include <string.h>
#include <sys/stat.h>

#include "../../common/path_hash.h"
#include "first_equal.h"

struct run {
    const char *bytes;
    uint32_t length;
};

static struct run run_of(const struct fan_runs *runs, uint64_t number)
{
    if (number < runs->count) {
        const struct fan_scan_entry *entry = &runs->entries[number];
        return (struct run){runs->names + entry->name_offset, entry->name_bytes};
    }
    const struct fan_scan_entry *link = &runs->entries[runs->links[number - runs->count]];
    return (struct run){runs->names + link->target_offset, link->target_bytes};
}

static bool hash_run(const void *context, uint64_t number, uint64_t *hash)
{
    struct run run = run_of(context, number);
    *hash = fan_path_hash_step(FAN_PATH_HASH_ROOT, run.bytes, run.length);
    return true;
}

static bool equal_runs(const void *context, uint64_t a, uint64_t b)
{
    struct run left = run_of(context, a), right = run_of(context, b);
    return left.length == right.length && memcmp(left.bytes, right.bytes, left.length) == 0;
}

int64_t fan_intern(const struct fan_runs *runs, uint64_t slots_max, uint64_t *places)
{
    const struct fan_things things = {runs, runs->count + runs->link_count, hash_run, equal_runs};
    int rc = fan_first_equals(&things, slots_max, places);
    uint64_t used = 0;
    if (rc != 0)
        return rc;
    for (uint64_t i = 0; i < things.count; i++) {
        if (places[i] != i) {
            places[i] = places[places[i]];
            continue;
        }
        places[i] = used;
        used += run_of(runs, i).length;
    }
    return (int64_t)used;
}

void fan_intern_copy(const struct fan_runs *runs, const uint64_t *places, char *section)
{
    uint64_t used = 0;
    for (uint64_t i = 0; i < runs->count + runs->link_count; i++) {
        struct run run = run_of(runs, i);
        if (places[i] != used || run.length == 0)
            continue;
        memcpy(section + used, run.bytes, run.length);
        used += run.length;
    }
}

static bool hash_file(const void *context, uint64_t number, uint64_t *hash)
{
    const struct fan_scan_entry *entry = (const struct fan_scan_entry *)context + number;
    const uint64_t id[2] = {entry->dev, entry->ino};
    *hash = fan_path_hash_step(FAN_PATH_HASH_ROOT, (const char *)id, sizeof(id));
    return S_ISREG(entry->mode) && entry->nlink > 1;
}

static bool same_file(const void *context, uint64_t a, uint64_t b)
{
    const struct fan_scan_entry *entries = context;
    return entries[a].dev == entries[b].dev && entries[a].ino == entries[b].ino;
}

int fan_same_files(const struct fan_scan_entry *entries, uint64_t count, uint64_t slots_max,
                   uint64_t *first)
{
    const struct fan_things things = {entries, count, hash_file, same_file};
    return fan_first_equals(&things, slots_max, first);
}
