/*
 * Finds, for each of very many things, the first one that equals it.
 *
 * Uses a hash table of limited size: if it cannot hold all things, it goes through them several
 * times, each time for one part of the hash values.
 */
#ifndef FAN_PREPARE_FIRST_EQUAL_H
#define FAN_PREPARE_FIRST_EQUAL_H

#include <stdbool.h>
#include <stdint.h>

/* Things that can be hashed and compared. hash: returns false for a thing that equals no other. */
struct fan_things {
    const void *context;
    uint64_t count;
    bool (*hash)(const void *context, uint64_t thing, uint64_t *hash);
    bool (*equal)(const void *context, uint64_t a, uint64_t b);
};

/* Fills first[i] with the first thing that equals thing i, which may be i itself. slots_max: the
 * limit for the table's slots, a power of two. Returns 0, -ENOMEM, or -EOVERFLOW if the hash values
 * are too unevenly spread for the table. */
int fan_first_equals(const struct fan_things *things, uint64_t slots_max, uint64_t *first);

#endif
