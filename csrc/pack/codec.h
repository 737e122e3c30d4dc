/*
 * Decodes one compressed block. The only user of liblz4 and libzstd: it looks up their few stable
 * functions when first needed, in libraries that a loader opens. The program that links this sets
 * the loader: the preload library intercepts dlopen(3), so this room must not call it by itself.
 */
#ifndef FAN_PACK_CODEC_H
#define FAN_PACK_CODEC_H

#include <stdbool.h>
#include <stddef.h>

/* As dlopen(3). */
typedef void *fan_codec_loader(const char *library, int mode);

/* Sets the loader; without one no library is found. */
void fan_codec_load_with(fan_codec_loader *loader);

/* Loads the library for `codec`. Returns 0, or -ELIBACC if it is missing. Not signal-safe; called
 * when a dataset that uses the codec is attached, so that reads find it loaded. Returns 0 while
 * deferred. */
int fan_codec_load(unsigned codec);

/* While on, fan_codec_load loads nothing, and the first decode loads the library. Before libc is
 * initialised, dlopen would initialise it, without the program's arguments. */
void fan_codec_defer(bool on);

/* Decodes exactly `logical` bytes from `stored` bytes at `from`. Never leaves these bounds,
 * whatever the input. Returns 0, -EIO (damaged), -ENOMEM, or -ELIBACC (library missing). Once the
 * library is loaded it calls no malloc, except with a libzstd that lacks static contexts. */
int fan_codec_decode(unsigned codec, void *to, size_t logical, const void *from, size_t stored);

#endif
