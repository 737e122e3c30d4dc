/* A small valid index in memory, as the seed of fuzzing and the subject of the C tests. */
#ifndef FAN_FUZZ_TREE_H
#define FAN_FUZZ_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../csrc/pack/content.h"

/* The size of the one pack that the index speaks of. */
enum { TREE_PACK_BYTES = 1 << 30 };

/* What `tree_fill` makes, in order of id: the root, `directories` directories below it, then
 * `files_each` files in each; of the files every fifth is a symbolic link, every seventh a hard
 * link of the one before, every third compressed in blocks. */
struct tree_shape {
    unsigned directories;
    unsigned files_each;
    bool has_slots; /* of version 1, else with dentries */
};

/* The bytes of the index, 0 when they do not fit. `buffer` is 64-byte aligned. */
size_t tree_fill(struct tree_shape shape, uint8_t *buffer, size_t capacity);

#endif
