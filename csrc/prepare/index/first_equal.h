/*
 * Finding for each of very many things the first one that equals it.
 *
 * A hash table of bounded size: where it cannot hold all things, they are gone through several
 * times, each time those of one part of the hash values.
 */
#ifndef FAN_PREPARE_FIRST_EQUAL_H
#define FAN_PREPARE_FIRST_EQUAL_H

#include <stdbool.h>
#include <stdint.h>

/* hash: false for a thing that equals no other. */
struct fan_things {
    const void *context;
    uint64_t count;
    bool (*hash)(const void *context, uint64_t thing, uint64_t *hash);
    bool (*equal)(const void *context, uint64_t a, uint64_t b);
};

/* first[i]: the first thing that equals thing i, i itself at the latest. slots_max: of the table, a
 * power of two. 0, -ENOMEM, or -EOVERFLOW where the hash values are so bad that the table does
 * not do. */
int fan_first_equals(const struct fan_things *things, uint64_t slots_max, uint64_t *first);

#endif
