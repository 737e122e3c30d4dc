/*
 * Decodes untrusted bytes: the first word gives codec and logical size, the rest is the block. If
 * liblz4 or libzstd is missing, its codec is skipped.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../../csrc/format/pack_format.h"
#include "../../csrc/pack/codec.h"
#include "fuzz.h"

enum { LOGICAL_MAX = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    uint32_t word;
    if (bytes < sizeof(word))
        return 0;
    fan_codec_load_with(dlopen);
    memcpy(&word, data, sizeof(word));
    size_t logical = (word >> 8) % (LOGICAL_MAX + 1);
    size_t stored = bytes - sizeof(word);
    char *to = malloc(logical > 0 ? logical : 1);
    char *from = malloc(stored > 0 ? stored : 1);
    if (to != NULL && from != NULL) {
        memcpy(from, data + sizeof(word), stored);
        fan_codec_decode(word & 7, to, logical, from, stored);
    }
    free(from);
    free(to);
    return 0;
}

static size_t compress(unsigned codec, const uint8_t *text, size_t bytes, uint8_t *to,
                       size_t capacity)
{
    typedef int lz4_fn(const void *, void *, int, int);
    typedef size_t zstd_fn(void *, size_t, const void *, size_t, int);
    bool zstd = codec == FAN_CODEC_ZSTD;
    void *library = dlopen(zstd ? "libzstd.so.1" : "liblz4.so.1", RTLD_NOW);
    void *symbol =
        library != NULL ? dlsym(library, zstd ? "ZSTD_compress" : "LZ4_compress_default") : NULL;
    if (symbol == NULL)
        return 0;
    return zstd ? ((zstd_fn *)symbol)(to, capacity, text, bytes, 3)
                : (size_t)((lz4_fn *)symbol)(text, to, (int)bytes, (int)capacity);
}

size_t fan_fuzz_seed(unsigned number, uint8_t *buffer, size_t capacity)
{
    static const unsigned codecs[] = {FAN_CODEC_LZ4, FAN_CODEC_ZSTD};
    static const size_t sizes[] = {1, 100, 5000, LOGICAL_MAX};
    static uint8_t text[LOGICAL_MAX];
    if (number >= 8)
        return 0;
    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = (uint8_t)(i * i >> 7);
    size_t logical = sizes[number / 2];
    uint32_t word = codecs[number % 2] | (uint32_t)logical << 8;
    memcpy(buffer, &word, sizeof(word));
    size_t stored = compress(codecs[number % 2], text, logical, buffer + sizeof(word),
                             capacity - sizeof(word));
    return sizeof(word) + stored;
}
