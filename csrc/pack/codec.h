/*
 * Decodes one compressed block. The only user of liblz4 and libzstd: it looks up their few stable
 * functions when they are first needed, in libraries that a loader function opens. The linking
 * program sets that function, because the preload library intercepts dlopen(3) and must not call it
 * here.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A function with dlopen's parameters and result. */
typedef void *fan_codec_loader(const char *library, int mode);

/* Sets the loader function; without one no library is found. */
void fan_codec_load_with(fan_codec_loader *loader);

/* Loads the library for `codec`. Returns 0, or -ELIBACC if it is missing. Not signal-safe, so it is
 * called when a dataset with this codec is attached; reads then find the library loaded. While
 * loading is deferred, does nothing and returns 0. */
int fan_codec_load(unsigned codec);

/* While `on`, fan_codec_load loads nothing, and the first decode loads the library. Used before
 * libc is initialised: dlopen would initialise it then, without the program's arguments. */
void fan_codec_defer(bool on);

/* Decodes exactly `logical` bytes from `stored` bytes at `from`. Never reads or writes beyond these
 * bounds, even for damaged input. Returns 0, -EIO (damaged), -ENOMEM, or -ELIBACC (library
 * missing). Once the library is loaded, it does not call malloc, except with a libzstd that lacks
 * static contexts. */
int fan_codec_decode(unsigned codec, void *to, size_t logical, const void *from, size_t stored);
