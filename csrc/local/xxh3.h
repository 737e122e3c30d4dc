/*
 * XXH3-64 with seed 0, the checksum of every file's content. Implements the specification (xxHash,
 * "XXH3 algorithm overview") for input of known length that comes in pieces.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The length of each piece, except the last, must be a multiple of this. */
enum { FAN_XXH3_PIECE_BYTES = 1024, FAN_XXH3_STRIPE_BYTES = 64 };

/* lanes: used for long inputs; result: used for short ones, which come in one piece. tail: the end
 * of the previous piece. */
struct fan_xxh3 {
    uint64_t lanes[8];
    uint64_t total;
    uint64_t done;
    uint64_t result;
    unsigned char tail[FAN_XXH3_STRIPE_BYTES];
};

void fan_xxh3_begin(struct fan_xxh3 *hash, uint64_t total_bytes);
void fan_xxh3_add(struct fan_xxh3 *hash, const void *piece, size_t bytes);

/* Returns the checksum. Call it when all pieces were added. */
uint64_t fan_xxh3_end(const struct fan_xxh3 *hash);
