#include "codec.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

#include "../common/spare.h"
#include "../format/pack_format.h"

/* LZ4_decompress_safe(src, dst, compressedSize, dstCapacity) */
typedef int lz4_decode_fn(const char *, char *, int, int);
/* ZSTD_decompress(dst, dstCapacity, src, compressedSize) */
typedef size_t zstd_decode_fn(void *, size_t, const void *, size_t);

/* ZSTD_estimateDCtxSize(), ZSTD_initStaticDCtx(workspace, bytes), ZSTD_decompressDCtx(context, ...)
 */
typedef size_t zstd_size_fn(void);
typedef void *zstd_context_fn(void *, size_t);
typedef size_t zstd_decode_with_fn(void *, void *, size_t, const void *, size_t);

static bool deferred;
static fan_codec_loader *load;
static _Atomic(lz4_decode_fn *) lz4_decode;
static _Atomic(zstd_decode_fn *) zstd_decode;

/* libzstd's decompression contexts, in memory that the kernel provides. ZSTD_decompress itself
 * calls malloc, which a signal handler must not, nor a read that siglongjmp may leave. bytes is set
 * last. */
static struct {
    zstd_context_fn *make;
    zstd_decode_with_fn *decode;
    _Atomic size_t bytes;
} zstd_static;

static struct fan_spares workspaces;

static void *find(const char *library, const char *symbol)
{
    void *handle = load != NULL ? load(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    return handle != NULL ? dlsym(handle, symbol) : NULL;
}

static void find_zstd(void)
{
    static const char library[] = "libzstd.so.1";
    zstd_size_fn *size = (zstd_size_fn *)find(library, "ZSTD_estimateDCtxSize");
    zstd_static.make = (zstd_context_fn *)find(library, "ZSTD_initStaticDCtx");
    zstd_static.decode = (zstd_decode_with_fn *)find(library, "ZSTD_decompressDCtx");
    if (size != NULL && zstd_static.make != NULL && zstd_static.decode != NULL)
        atomic_store(&zstd_static.bytes, size());
    atomic_store(&zstd_decode, (zstd_decode_fn *)find(library, "ZSTD_decompress"));
}

static int decode_zstd(void *to, size_t logical, const void *from, size_t stored)
{
    size_t bytes = atomic_load(&zstd_static.bytes);
    if (bytes == 0)
        return atomic_load(&zstd_decode)(to, logical, from, stored) == logical ? 0 : -EIO;
    void *workspace = fan_spare_take(&workspaces, bytes);
    void *context = workspace != NULL ? zstd_static.make(workspace, bytes) : NULL;
    if (context == NULL)
        return workspace == NULL ? -ENOMEM : -EIO;
    size_t got = zstd_static.decode(context, to, logical, from, stored);
    fan_spare_give(&workspaces, workspace);
    return got == logical ? 0 : -EIO;
}

void fan_codec_load_with(fan_codec_loader *loader)
{
    load = loader;
}

void fan_codec_defer(bool on)
{
    deferred = on;
}

int fan_codec_load(unsigned codec)
{
    if (deferred)
        return 0;
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
            find_zstd();
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
        return decode_zstd(to, logical, from, stored);
    if (codec == FAN_CODEC_STORE || stored > INT_MAX || logical > INT_MAX)
        return -EIO;
    int got = atomic_load(&lz4_decode)(from, to, (int)stored, (int)logical);
    return got >= 0 && (size_t)got == logical ? 0 : -EIO;
}
