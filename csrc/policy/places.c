#include "places.h"

#include <errno.h>
#include <stdlib.h>

enum { LEAST_SLOTS = 16 };

/* Returns the hash table's slot of a record, or the free one to use for it. */
static uint32_t *slot_of(const struct fan_places *places, uint64_t record)
{
    uint64_t hash = record * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t at = (hash ^ hash >> 32) & places->mask;
    while (places->slots[at] != FAN_NO_PLACE && places->records[places->slots[at]] != record)
        at = (at + 1) & places->mask;
    return &places->slots[at];
}

int fan_places_init(struct fan_places *places, const uint64_t *records, uint64_t count)
{
    uint64_t slots = LEAST_SLOTS;
    if (count >= FAN_NO_PLACE)
        return -E2BIG;
    while (slots < 2 * count)
        slots *= 2;
    *places = (struct fan_places){.records = records,
                                  .slots = malloc(slots * sizeof(*places->slots)),
                                  .again = malloc((count + 1) * sizeof(*places->again)),
                                  .mask = slots - 1};
    if (places->slots == NULL || places->again == NULL) {
        fan_places_fini(places);
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < slots; i++)
        places->slots[i] = FAN_NO_PLACE;
    for (uint64_t place = count; place-- > 0;) {
        uint32_t *slot = slot_of(places, records[place]);
        places->again[place] = *slot;
        *slot = (uint32_t)place;
    }
    return 0;
}

void fan_places_fini(struct fan_places *places)
{
    free(places->slots);
    free(places->again);
    *places = (struct fan_places){0};
}

uint32_t fan_places_find(struct fan_places *places, uint64_t record, uint64_t passed, uint64_t from)
{
    uint32_t *slot = slot_of(places, record);
    /* The record's last place stays in its slot, so that a probe for another record does not stop
     * there. */
    while (*slot != FAN_NO_PLACE && *slot < passed && places->again[*slot] != FAN_NO_PLACE)
        *slot = places->again[*slot];
    uint32_t place = *slot;
    while (place != FAN_NO_PLACE && place < from)
        place = places->again[place];
    return place;
}
