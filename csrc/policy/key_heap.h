/* A heap of slots with 32-bit keys: the lowest key comes first and, among equal keys, the lowest
 * slot. Pure; only fan_key_heap_init allocates. A change takes O(log n). */
#pragma once

#include <stdint.h>

/* entries: the key in the high half, the slot in the low half. Each entry comes before its ARITY
 * children, the first of which is at ARITY times its place plus 1. places: for each slot in the
 * heap, the place of its entry. */
struct fan_key_heap {
    uint64_t *entries;
    uint32_t *places;
    uint32_t count;
};

/* Makes an empty heap for slots 0 to slot_count - 1. Returns 0 or -ENOMEM. */
int fan_key_heap_init(struct fan_key_heap *heap, uint32_t slot_count);
void fan_key_heap_fini(struct fan_key_heap *heap);

/* Adds a slot, or gives it another key. */
void fan_key_heap_put(struct fan_key_heap *heap, uint32_t slot, uint32_t key);

/* Removes a slot that was added. */
void fan_key_heap_remove(struct fan_key_heap *heap, uint32_t slot);

/* Returns the first slot and its key. The heap must not be empty. */
static inline uint32_t fan_key_heap_first(const struct fan_key_heap *heap)
{
    return (uint32_t)heap->entries[0];
}

static inline uint32_t fan_key_heap_first_key(const struct fan_key_heap *heap)
{
    return (uint32_t)(heap->entries[0] >> 32);
}
