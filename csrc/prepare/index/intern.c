#include "intern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../../common/path_hash.h"

/* A slot of the table: the number of a thing plus one, with some bits of its hash above. */
static const unsigned TAG_SHIFT = 40;
static const uint64_t NUMBER_MASK = (UINT64_C(1) << 40) - 1;

/* Things that can be hashed and compared. hash: returns false for a thing that equals no other. */
struct things {
    const void *context;
    uint64_t count;
    bool (*hash)(const void *context, uint64_t thing, uint64_t *hash);
    bool (*equal)(const void *context, uint64_t a, uint64_t b);
};

/* A hash table of limited size. */
struct table {
    uint64_t *slots;
    uint64_t mask;
    uint64_t used;
};

/* Returns the first thing that equals this one. If there is none yet, enters this thing and returns
 * it. */
static uint64_t find(struct table *table, const struct things *things, uint64_t thing,
                     uint64_t hash)
{
    uint64_t tag = hash >> TAG_SHIFT << TAG_SHIFT;
    uint64_t at = hash & table->mask;
    for (uint64_t slot; (slot = table->slots[at]) != 0; at = (at + 1) & table->mask) {
        uint64_t other = (slot & NUMBER_MASK) - 1;
        if ((slot & ~NUMBER_MASK) == tag && things->equal(things->context, other, thing))
            return other;
    }
    table->slots[at] = tag | (thing + 1);
    table->used++;
    return thing;
}

/* Goes through the things whose hash belongs to part `part` of `parts`. Things that equal no other
 * are set in the first pass. */
static int pass(struct table *table, const struct things *things, uint64_t part, uint64_t parts,
                uint64_t *first)
{
    memset(table->slots, 0, (table->mask + 1) * sizeof(*table->slots));
    table->used = 0;
    for (uint64_t thing = 0; thing < things->count; thing++) {
        uint64_t hash;
        if (!things->hash(things->context, thing, &hash)) {
            first[thing] = thing;
            continue;
        }
        /* The slot depends on the low bits of the hash, the tag on the high ones. */
        if (parts > 1 && (hash >> 32) % parts != part)
            continue;
        if (table->used > table->mask / 8 * 7)
            return -EOVERFLOW;
        first[thing] = find(table, things, thing, hash);
    }
    return 0;
}

/* Returns how many things may equal another one. */
static uint64_t count_hashed(const struct things *things)
{
    uint64_t hash, count = 0;
    for (uint64_t thing = 0; thing < things->count; thing++)
        count += things->hash(things->context, thing, &hash);
    return count;
}

/* Fills first[i] with the first thing that equals thing i, which may be i itself. slots_max: the
 * limit for the table's slots, a power of two; if it cannot hold all things, they are gone through
 * several times, each time for one part of the hash values. Returns 0, -ENOMEM, or -EOVERFLOW if
 * the hash values are too unevenly spread for the table. */
static int first_equals(const struct things *things, uint64_t slots_max, uint64_t *first)
{
    uint64_t slots = 16, count = count_hashed(things);
    while (slots < count * 2 && slots < slots_max)
        slots *= 2;
    uint64_t parts = (count * 2 + slots - 1) / slots;
    struct table table = {calloc(slots, sizeof(*table.slots)), slots - 1, 0};
    int rc = table.slots != NULL ? 0 : -ENOMEM;
    for (uint64_t part = 0; rc == 0 && (part < parts || part == 0); part++)
        rc = pass(&table, things, part, parts, first);
    free(table.slots);
    return rc;
}

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
    const struct things things = {runs, runs->count + runs->link_count, hash_run, equal_runs};
    int rc = first_equals(&things, slots_max, places);
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
    const struct things things = {entries, count, hash_file, same_file};
    return first_equals(&things, slots_max, first);
}
