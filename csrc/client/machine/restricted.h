/*
 * A program may install a seccomp filter that ends it for a system call that it does not make
 * itself. From then on only such calls are made for a call of the program's as that would make on
 * an ordinary file: open, fstat, mmap and close for an open.
 */
#ifndef FAN_CLIENT_RESTRICTED_H
#define FAN_CLIENT_RESTRICTED_H

#include <stdatomic.h>
#include <stdbool.h>

extern atomic_bool fan_restricted_flag;

static inline bool fan_restricted(void)
{
    return __builtin_expect(atomic_load_explicit(&fan_restricted_flag, memory_order_relaxed), 0);
}

#endif
