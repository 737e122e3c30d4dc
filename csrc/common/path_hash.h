/*
 * Hashes paths: component by component, so that a child's hash is one step from its directory's.
 * Part of the index format; docs/format.md specifies it.
 *
 * A step reads 8 bytes at a time and folds the 128-bit product, like other multiply-fold hashes.
 * The hash has no key: a hostile dataset can make its own look-ups slow, but never wrong.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FAN_PATH_HASH_ROOT UINT64_C(0x9e3779b97f4a7c15)
#define FAN_PATH_HASH_A UINT64_C(0xa24baed4963ee407)
#define FAN_PATH_HASH_B UINT64_C(0x9fb21c651e98df25)

static inline uint64_t fan_hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t fan_hash_word(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

/* Returns the last `n` (0 to 7) of `all` bytes that end at `end`, as one little-endian word. Its
 * loads may overlap, but read no other byte. */
static inline uint64_t fan_hash_tail(const unsigned char *end, size_t n, size_t all)
{
    uint32_t low, high;
    if (n == 0)
        return 0;
    if (all >= 8)
        return fan_hash_word(end - 8) >> (8 * (8 - n));
    if (n < 4)
        return end[-(ptrdiff_t)n] | (uint64_t)end[-(ptrdiff_t)(n - n / 2)] << (8 * (n / 2)) |
               (uint64_t)end[-1] << (8 * (n - 1));
    memcpy(&low, end - n, sizeof(low));
    memcpy(&high, end - 4, sizeof(high));
    return low | (uint64_t)high << (8 * (n - 4));
}

/* Returns the hash of a directory's child: the directory's hash, extended by one component of `n`
 * bytes (no slash). */
static inline uint64_t fan_path_hash_step(uint64_t hash, const void *name, size_t n)
{
    const unsigned char *p = name, *end = p + n;
    uint64_t h = hash ^ (n * FAN_PATH_HASH_A);
    for (; end - p >= 8; p += 8)
        h = fan_hash_fold(h ^ fan_hash_word(p), FAN_PATH_HASH_B);
    return fan_hash_fold(h ^ fan_hash_tail(end, n % 8, n), FAN_PATH_HASH_A);
}
