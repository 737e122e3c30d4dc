/*
 * Calls of fortified programs (_FORTIFY_SOURCE). The size of the buffer is their last argument,
 * behind those of the call itself, of any types.
 */
#include "../real.h"
#include "../undeclared.h"

#define FAN_SIZE_CHECKED(name, of, size, room)                                                     \
    long fan_plain_##name(long a, long b, long c, long d, long e, long f) __asm__(#of);            \
    long fan_checked_##name(long a, long b, long c, long d, long e, long f) __asm__(#name);        \
    FAN_EXPORT long fan_checked_##name(long a, long b, long c, long d, long e, long f)             \
    {                                                                                              \
        if ((size_t)(size) > (size_t)(room))                                                       \
            __chk_fail();                                                                          \
        return fan_plain_##name(a, b, c, d, e, f);                                                 \
    }
#include "../calls.def"
