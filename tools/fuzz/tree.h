/* Makes a small valid index in memory, as a seed of fuzzing and for the C tests. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../csrc/pack/content.h"

/* The size of the only pack in the index. */
enum { TREE_PACK_BYTES = 1 << 30 };

/* The content that tree_fill makes, in order of id: the root, `directories` directories below it,
 * then `files_each` files in each. Every fifth file is a symbolic link, every seventh a hard link
 * of the one before, every third compressed in blocks. */
struct tree_shape {
    unsigned directories;
    unsigned files_each;
    unsigned version; /* 0: that of new indexes */
};

/* Writes the index to `buffer`, which is 64-byte aligned. Returns its bytes, or 0 if they do not
 * fit. */
size_t tree_fill(struct tree_shape shape, uint8_t *buffer, size_t capacity);
