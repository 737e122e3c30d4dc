#include "key_heap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum { ARITY = 4 }; /* the children of an entry lie side by side, in half a cache line */

int fan_key_heap_init(struct fan_key_heap *heap, uint32_t slot_count)
{
    *heap = (struct fan_key_heap){.entries = calloc(slot_count, sizeof(*heap->entries)),
                                  .places = calloc(slot_count, sizeof(*heap->places))};
    if (heap->entries != NULL && heap->places != NULL)
        return 0;
    fan_key_heap_fini(heap);
    return -ENOMEM;
}

void fan_key_heap_fini(struct fan_key_heap *heap)
{
    free(heap->entries);
    free(heap->places);
    *heap = (struct fan_key_heap){0};
}

static void set(struct fan_key_heap *heap, uint64_t place, uint64_t entry)
{
    heap->entries[place] = entry;
    heap->places[(uint32_t)entry] = (uint32_t)place;
}

/* Moves ancestors of `place` down that come after `entry`. Returns the place for `entry`. */
static uint64_t raise(struct fan_key_heap *heap, uint64_t place, uint64_t entry)
{
    while (place > 0 && entry < heap->entries[(place - 1) / ARITY]) {
        set(heap, place, heap->entries[(place - 1) / ARITY]);
        place = (place - 1) / ARITY;
    }
    return place;
}

/* Returns the place of an entry's first child; `count` or more if it has none. */
static uint64_t first_below(const struct fan_key_heap *heap, uint64_t place)
{
    uint64_t begin = place * ARITY + 1;
    uint64_t end = begin + ARITY < heap->count ? begin + ARITY : heap->count;
    uint64_t first = begin;
    for (uint64_t other = begin + 1; other < end; other++) {
        if (heap->entries[other] < heap->entries[first])
            first = other;
    }
    return first;
}

/* Moves descendants of `place` up that come before `entry`. Returns the place for `entry`. */
static uint64_t lower(struct fan_key_heap *heap, uint64_t place, uint64_t entry)
{
    uint64_t below = first_below(heap, place);
    while (below < heap->count && heap->entries[below] < entry) {
        set(heap, place, heap->entries[below]);
        place = below;
        below = first_below(heap, place);
    }
    return place;
}

static void settle(struct fan_key_heap *heap, uint64_t place, uint64_t entry)
{
    place = raise(heap, place, entry);
    set(heap, lower(heap, place, entry), entry);
}

static bool has(const struct fan_key_heap *heap, uint32_t slot)
{
    uint32_t place = heap->places[slot];
    return place < heap->count && (uint32_t)heap->entries[place] == slot;
}

void fan_key_heap_put(struct fan_key_heap *heap, uint32_t slot, uint32_t key)
{
    uint32_t place = has(heap, slot) ? heap->places[slot] : heap->count++;
    settle(heap, place, (uint64_t)key << 32 | slot);
}

void fan_key_heap_remove(struct fan_key_heap *heap, uint32_t slot)
{
    uint64_t last = heap->entries[--heap->count];
    if ((uint32_t)last != slot)
        settle(heap, heap->places[slot], last);
}
