#include "codec.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>

#include "../format/pack_format.h"

/* LZ4_decompress_safe(src, dst, compressedSize, dstCapacity) */
typedef int lz4_decode_fn(const char *, char *, int, int);
/* ZSTD_decompress(dst, dstCapacity, src, compressedSize) */
typedef size_t zstd_decode_fn(void *, size_t, const void *, size_t);

static _Atomic(lz4_decode_fn *) lz4_decode;
static _Atomic(zstd_decode_fn *) zstd_decode;

static void *find(const char *library, const char *symbol)
{
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return handle != NULL ? dlsym(handle, symbol) : NULL;
}

int fan_codec_load(unsigned codec)
{
    switch (codec) {
    case FAN_CODEC_STORE:
        return 0;
    case FAN_CODEC_LZ4:
    case FAN_CODEC_LZ4HC:
        if (atomic_load(&lz4_decode) == NULL)
            atomic_store(&lz4_decode,
                         (lz4_decode_fn *)find("liblz4.so.1", "LZ4_decompress_safe"));
        return atomic_load(&lz4_decode) != NULL ? 0 : -ELIBACC;
    case FAN_CODEC_ZSTD:
        if (atomic_load(&zstd_decode) == NULL)
            atomic_store(&zstd_decode, (zstd_decode_fn *)find("libzstd.so.1", "ZSTD_decompress"));
        return atomic_load(&zstd_decode) != NULL ? 0 : -ELIBACC;
    default:
        return -EIO;
    }
}

int fan_codec_decode(unsigned codec, void *to, size_t logical, const void *from, size_t stored)
{
    int rc = fan_codec_load(codec);
    if (rc != 0)
        return rc;
    if (codec == FAN_CODEC_ZSTD)
        return atomic_load(&zstd_decode)(to, logical, from, stored) == logical ? 0 : -EIO;
    if (codec == FAN_CODEC_STORE || stored > INT_MAX || logical > INT_MAX)
        return -EIO;
    int got = atomic_load(&lz4_decode)(from, to, (int)stored, (int)logical);
    return got >= 0 && (size_t)got == logical ? 0 : -EIO;
}
