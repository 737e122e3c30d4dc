/*
 * Decoding one compressed block. The only user of liblz4 and libzstd, whose few stable functions
 * are found when first needed, in libraries that a loader opens. Whoever links this gives it one:
 * dlopen(3) is a call that the preload library intercepts, and is not to be reached from below.
 */
#ifndef FAN_PACK_CODEC_H
#define FAN_PACK_CODEC_H

#include <stdbool.h>
#include <stddef.h>

/* As dlopen(3). */
typedef void *fan_codec_loader(const char *library, int mode);

/* Sets the loader; without one no library is there. */
void fan_codec_load_with(fan_codec_loader *loader);

/* Loads the library for `codec`. 0, or -ELIBACC when it is not there. Not signal-safe; done when a
 * dataset that uses the codec is attached, so that reads find it loaded. 0 while deferred. */
int fan_codec_load(unsigned codec);

/* While on, nothing is loaded, and what is needed is loaded when it is first decoded: before libc
 * is initialised dlopen would have that done, without the program's arguments. */
void fan_codec_defer(bool on);

/* Decodes exactly `logical` bytes from `stored` bytes at `from`. Bounds are kept whatever the
 * input. 0, -EIO (damaged), -ENOMEM, or -ELIBACC (library absent). Calls no malloc once the library
 * is loaded, but with a libzstd that lacks static contexts. */
int fan_codec_decode(unsigned codec, void *to, size_t logical, const void *from, size_t stored);

#endif
