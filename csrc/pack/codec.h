/*
 * Decoding one compressed block. The only user of liblz4 and libzstd, whose few stable functions
 * are found with dlopen when first needed.
 */
#ifndef FAN_PACK_CODEC_H
#define FAN_PACK_CODEC_H

#include <stddef.h>

/* Loads the library for `codec`. 0, or -ELIBACC when it is not there. Not signal-safe; done when a
 * dataset that uses the codec is attached, so that reads find it loaded. */
int fan_codec_load(unsigned codec);

/* Decodes exactly `logical` bytes from `stored` bytes at `from`. Bounds are kept whatever the
 * input. 0, -EIO (damaged), or -ELIBACC (library absent). */
int fan_codec_decode(unsigned codec, void *to, size_t logical, const void *from, size_t stored);

#endif
