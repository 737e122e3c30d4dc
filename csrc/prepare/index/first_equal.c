#include "first_equal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A slot of the table: the number of a thing plus one, with some bits of its hash above. */
static const unsigned TAG_SHIFT = 40;
static const uint64_t NUMBER_MASK = (UINT64_C(1) << 40) - 1;

struct table {
    uint64_t *slots;
    uint64_t mask;
    uint64_t used;
};

/* Returns the first thing that equals this one. If there is none yet, enters this thing and returns
 * it. */
static uint64_t find(struct table *table, const struct fan_things *things, uint64_t thing,
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
static int pass(struct table *table, const struct fan_things *things, uint64_t part, uint64_t parts,
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
static uint64_t count_hashed(const struct fan_things *things)
{
    uint64_t hash, count = 0;
    for (uint64_t thing = 0; thing < things->count; thing++)
        count += things->hash(things->context, thing, &hash);
    return count;
}

int fan_first_equals(const struct fan_things *things, uint64_t slots_max, uint64_t *first)
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
