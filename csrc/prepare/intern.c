#include "intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../common/path_hash.h"

/* Slots hold the number of a run plus one; half of them stay empty. */
static uint64_t slot_count_for(uint64_t count)
{
    uint64_t slots = 16;
    while (slots < count * 2)
        slots *= 2;
    return slots;
}

/* The slot of a run equal to this one, or the empty slot where it belongs. */
static uint64_t find(const uint64_t *slots, uint64_t mask, const char *out, const uint64_t *places,
                     const uint32_t *lengths, const char *run, uint32_t bytes)
{
    uint64_t at = fan_path_hash_step(FAN_PATH_HASH_ROOT, run, bytes) & mask;
    while (slots[at] != 0) {
        uint64_t other = slots[at] - 1;
        if (lengths[other] == bytes && memcmp(out + places[other], run, bytes) == 0)
            break;
        at = (at + 1) & mask;
    }
    return at;
}

int64_t fan_intern(const char *source, const uint64_t *offsets, const uint32_t *lengths,
                   uint64_t count, char *out, uint64_t *places)
{
    uint64_t slot_count = slot_count_for(count);
    uint64_t *slots = calloc(slot_count, sizeof(*slots));
    uint64_t used = 0;
    if (slots == NULL)
        return -ENOMEM;
    for (uint64_t i = 0; i < count; i++) {
        const char *run = source + offsets[i];
        uint64_t at = find(slots, slot_count - 1, out, places, lengths, run, lengths[i]);
        if (slots[at] != 0) {
            places[i] = places[slots[at] - 1];
            continue;
        }
        slots[at] = i + 1;
        places[i] = used;
        memcpy(out + used, run, lengths[i]);
        used += lengths[i];
    }
    free(slots);
    return (int64_t)used;
}
