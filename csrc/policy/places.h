/*
 * The places of each record in an order of reading, where it stands once or several times. Pure.
 * Made once, by whoever has the order; asked with a place that only grows.
 */
#ifndef FAN_POLICY_PLACES_H
#define FAN_POLICY_PLACES_H

#include <stdint.h>

/* slots: a hash table of the first place of each record; again: of each place, the next one of the
 * same record. FAN_NO_PLACE: there is none. */
struct fan_places {
    const uint64_t *records;
    uint32_t *slots;
    uint32_t *again;
    uint64_t mask;
};

enum { FAN_NO_PLACE = UINT32_MAX };

/* Of `count` records, which are to stay where they are. 0, -ENOMEM, or -E2BIG. */
int fan_places_init(struct fan_places *places, const uint64_t *records, uint64_t count);
void fan_places_fini(struct fan_places *places);

/* The first place of a record that is `from` or later; FAN_NO_PLACE. Those before `passed`, which
 * grows from call to call, are forgotten. */
uint32_t fan_places_find(struct fan_places *places, uint64_t record, uint64_t passed,
                         uint64_t from);

#endif
