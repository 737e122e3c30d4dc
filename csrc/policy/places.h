/*
 * Finds the places of a record in a reading order, in which it may occur several times. Pure. The
 * owner of the order creates it once; `passed` must not shrink from query to query.
 */
#pragma once

#include <stdint.h>

/* slots: a hash table of the first place of each record; again: for each place, the next place of
 * the same record, or FAN_NO_PLACE. */
struct fan_places {
    const uint64_t *records;
    uint32_t *slots;
    uint32_t *again;
    uint64_t mask;
};

enum { FAN_NO_PLACE = UINT32_MAX };

/* Indexes `count` records, which must stay in memory. Returns 0, -ENOMEM, or -E2BIG. */
int fan_places_init(struct fan_places *places, const uint64_t *records, uint64_t count);
void fan_places_fini(struct fan_places *places);

/* Returns the first place of a record at `from` or later, or FAN_NO_PLACE. Forgets places before
 * `passed`, which must not shrink from call to call. */
uint32_t fan_places_find(struct fan_places *places, uint64_t record, uint64_t passed,
                         uint64_t from);
