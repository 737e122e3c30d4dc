#include "xxh3.h"

#include <stdbool.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#    error "words are taken as they lie"
#endif

enum {
    LANES = 8,
    SECRET_BYTES = 192,
    STRIPES = FAN_XXH3_PIECE_BYTES / FAN_XXH3_STRIPE_BYTES,
    SHORT_MAX = 240
};

static const uint64_t P32_1 = 0x9e3779b1, P32_2 = 0x85ebca77, P32_3 = 0xc2b2ae3d;
static const uint64_t P64_1 = 0x9e3779b185ebca87, P64_2 = 0xc2b2ae3d27d4eb4f;
static const uint64_t P64_3 = 0x165667b19e3779f9, P64_4 = 0x85ebca77c2b2ae63;
static const uint64_t P64_5 = 0x27d4eb2f165667c5;
static const uint64_t MIX_1 = 0x165667919e3779f9, MIX_2 = 0x9fb21c651e98df25;

static const unsigned char secret[SECRET_BYTES] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static uint64_t word(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint32_t half(const unsigned char *at)
{
    uint32_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t avalanche(uint64_t x)
{
    x ^= x >> 37;
    x *= MIX_1;
    return x ^ x >> 32;
}

static uint64_t avalanche_short(uint64_t x)
{
    x ^= x >> 33;
    x *= P64_2;
    x ^= x >> 29;
    x *= P64_3;
    return x ^ x >> 32;
}

static uint64_t up_to_3(const unsigned char *in, uint64_t bytes)
{
    if (bytes == 0)
        return avalanche_short(word(secret + 56) ^ word(secret + 64));
    uint64_t packed =
        (uint64_t)in[0] << 16 | (uint64_t)in[bytes >> 1] << 24 | in[bytes - 1] | bytes << 8;
    return avalanche_short(packed ^ (half(secret) ^ half(secret + 4)));
}

static uint64_t up_to_8(const unsigned char *in, uint64_t bytes)
{
    uint64_t both = half(in + bytes - 4) + ((uint64_t)half(in) << 32);
    uint64_t x = both ^ word(secret + 8) ^ word(secret + 16);
    x ^= rotate(x, 49) ^ rotate(x, 24);
    x *= MIX_2;
    x ^= (x >> 35) + bytes;
    x *= MIX_2;
    return x ^ x >> 28;
}

static uint64_t up_to_16(const unsigned char *in, uint64_t bytes)
{
    uint64_t low = word(in) ^ word(secret + 24) ^ word(secret + 32);
    uint64_t high = word(in + bytes - 8) ^ word(secret + 40) ^ word(secret + 48);
    return avalanche(bytes + __builtin_bswap64(low) + high + fold(low, high));
}

static uint64_t mix(const unsigned char *in, const unsigned char *key)
{
    return fold(word(in) ^ word(key), word(in + 8) ^ word(key + 8));
}

/* Hashes 17 to 128 bytes, in pairs from both ends towards the middle. */
static uint64_t up_to_128(const unsigned char *in, uint64_t bytes)
{
    uint64_t sum = bytes * P64_1;
    for (uint64_t i = (bytes - 1) / 32 + 1; i-- > 0;)
        sum += mix(in + 16 * i, secret + 32 * i) +
               mix(in + bytes - 16 * (i + 1), secret + 32 * i + 16);
    return avalanche(sum);
}

static uint64_t up_to_240(const unsigned char *in, uint64_t bytes)
{
    uint64_t sum = bytes * P64_1;
    for (unsigned i = 0; i < 8; i++)
        sum += mix(in + 16 * i, secret + 16 * i);
    sum = avalanche(sum);
    for (unsigned i = 8; i < bytes / 16; i++)
        sum += mix(in + 16 * i, secret + 16 * (i - 8) + 3);
    return avalanche(sum + mix(in + bytes - 16, secret + 136 - 17));
}

static uint64_t hash_short(const unsigned char *in, uint64_t bytes)
{
    if (bytes <= 3)
        return up_to_3(in, bytes);
    if (bytes <= 8)
        return up_to_8(in, bytes);
    if (bytes <= 16)
        return up_to_16(in, bytes);
    return bytes <= 128 ? up_to_128(in, bytes) : up_to_240(in, bytes);
}

static void take_stripe(uint64_t lanes[LANES], const unsigned char *in, const unsigned char *key)
{
    for (unsigned i = 0; i < LANES; i++) {
        uint64_t value = word(in + 8 * i), keyed = value ^ word(key + 8 * i);
        lanes[i ^ 1] += value;
        lanes[i] += (keyed & UINT32_MAX) * (keyed >> 32);
    }
}

static void scramble(uint64_t lanes[LANES])
{
    const unsigned char *key = secret + SECRET_BYTES - FAN_XXH3_STRIPE_BYTES;
    for (unsigned i = 0; i < LANES; i++)
        lanes[i] = (lanes[i] ^ lanes[i] >> 47 ^ word(key + 8 * i)) * P32_1;
}

static void take_stripes(uint64_t lanes[LANES], const unsigned char *in, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        take_stripe(lanes, in + i * FAN_XXH3_STRIPE_BYTES, secret + 8 * i);
}

/* Adds the last 64 bytes, some of which the stripes before may have added already. */
static void take_last(struct fan_xxh3 *hash, const unsigned char *in, size_t bytes)
{
    unsigned char joined[2 * FAN_XXH3_STRIPE_BYTES];
    const unsigned char *last = in + bytes - FAN_XXH3_STRIPE_BYTES;
    if (bytes < FAN_XXH3_STRIPE_BYTES) {
        memcpy(joined, hash->tail, FAN_XXH3_STRIPE_BYTES);
        memcpy(joined + FAN_XXH3_STRIPE_BYTES, in, bytes);
        last = joined + bytes;
    }
    take_stripe(hash->lanes, last, secret + SECRET_BYTES - FAN_XXH3_STRIPE_BYTES - 7);
}

void fan_xxh3_begin(struct fan_xxh3 *hash, uint64_t total_bytes)
{
    *hash = (struct fan_xxh3){.lanes = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1},
                              .total = total_bytes};
    if (total_bytes == 0)
        hash->result = hash_short(NULL, 0);
}

void fan_xxh3_add(struct fan_xxh3 *hash, const void *piece, size_t bytes)
{
    const unsigned char *in = piece;
    bool is_last = hash->done + bytes == hash->total;
    if (hash->total <= SHORT_MAX) {
        hash->result = hash_short(in, bytes);
        return;
    }
    size_t blocks = is_last ? (bytes - 1) / FAN_XXH3_PIECE_BYTES : bytes / FAN_XXH3_PIECE_BYTES;
    for (size_t i = 0; i < blocks; i++) {
        take_stripes(hash->lanes, in + i * FAN_XXH3_PIECE_BYTES, STRIPES);
        scramble(hash->lanes);
    }
    hash->done += bytes;
    if (is_last) {
        size_t from = blocks * FAN_XXH3_PIECE_BYTES;
        take_stripes(hash->lanes, in + from, (bytes - from - 1) / FAN_XXH3_STRIPE_BYTES);
        take_last(hash, in, bytes);
    } else {
        memcpy(hash->tail, in + bytes - FAN_XXH3_STRIPE_BYTES, FAN_XXH3_STRIPE_BYTES);
    }
}

uint64_t fan_xxh3_end(const struct fan_xxh3 *hash)
{
    const unsigned char *key = secret + 11;
    if (hash->total <= SHORT_MAX)
        return hash->result;
    uint64_t sum = hash->total * P64_1;
    for (unsigned i = 0; i < LANES; i += 2)
        sum += fold(hash->lanes[i] ^ word(key + 8 * i), hash->lanes[i + 1] ^ word(key + 8 * i + 8));
    return avalanche(sum);
}
