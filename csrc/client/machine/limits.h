/* Limits that a program sets for itself, and that hold for what the library does in it, too. */
#ifndef FAN_CLIENT_LIMITS_H
#define FAN_CLIENT_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Whether RLIMIT_FSIZE lets a file grow so far; growing it beyond would raise SIGXFSZ. */
bool fan_file_limit_allows(uint64_t bytes);

extern atomic_bool fan_restricted_flag;

/* Whether the program has installed a seccomp filter that may end it for a system call that it does
 * not make itself. From then on only such calls are made for a call of the program's as that would
 * make on an ordinary file: open, fstat, mmap and close for an open. */
static inline bool fan_restricted(void)
{
    return __builtin_expect(atomic_load_explicit(&fan_restricted_flag, memory_order_relaxed), 0);
}

#endif
