/*
 * The hash of a path: a chain over its components, so that a child's hash is one step from its
 * directory's. Part of the index format; docs/format.md specifies it.
 *
 * A step reads 8 bytes at a time and folds the 128-bit product, in the manner of multiply-fold
 * hashes. It is not keyed: a hostile dataset can make its own look-ups slow, never wrong.
 */
#ifndef FAN_COMMON_PATH_HASH_H
#define FAN_COMMON_PATH_HASH_H

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

/* The last 1 to 7 bytes as one little-endian word. */
static inline uint64_t fan_hash_tail(const unsigned char *p, size_t n)
{
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++)
        word |= (uint64_t)p[i] << (8 * i);
    return word;
}

/* The hash of directory `hash` extended by one component of `n` bytes (no slash). Pure. */
static inline uint64_t fan_path_hash_step(uint64_t hash, const void *name, size_t n)
{
    const unsigned char *p = name;
    uint64_t h = hash ^ (n * FAN_PATH_HASH_A);
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = fan_hash_fold(h ^ word, FAN_PATH_HASH_B);
    }
    return fan_hash_fold(h ^ fan_hash_tail(p, n), FAN_PATH_HASH_A);
}

#endif
