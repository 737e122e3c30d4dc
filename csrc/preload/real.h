/*
 * The real calls behind the intercepted ones: the next definition after this library's, so that
 * other preloads keep working. Each is looked up when it is first needed.
 */
#pragma once

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* A wrapper has the prototype of the real call, even if that is deprecated or declares arguments
 * nonnull; the 64-bit variants differ only in the names of their types. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wmissing-attributes"
#pragma GCC diagnostic ignored "-Wnonnull-compare"
#else
#pragma GCC diagnostic ignored "-Wtautological-pointer-compare"
#endif

enum fan_real_index {
#define FAN_NAME(name) FAN_REAL_##name,
#include "calls.def"
    FAN_REAL_COUNT
};

extern _Atomic(void *) fan_real_calls[FAN_REAL_COUNT];

/* Looks up a real call; NULL if no later library has it. */
void *fan_real_find(enum fan_real_index index);

static inline void *fan_real_call(enum fan_real_index index)
{
    void *call = atomic_load_explicit(&fan_real_calls[index], memory_order_relaxed);
    return __builtin_expect(call != NULL, 1) ? call : fan_real_find(index);
}

#define REAL(name) ((__typeof__(&name))fan_real_call(FAN_REAL_##name))

/* Exports a function from the library. */
#define FAN_EXPORT __attribute__((visibility("default")))

/* Returns whether an argument that a header declares nonnull is not NULL. The assembly hides the
 * value, so that the compiler cannot assume this. */
static inline bool fan_given(const void *argument)
{
    __asm__("" : "+r"(argument));
    return argument != NULL;
}

/* Converts -errno to the C library's convention: sets errno and returns -1. */
static inline long fan_answer(long rc)
{
    if (__builtin_expect(rc >= 0, 1))
        return rc;
    errno = (int)-rc;
    return -1;
}
