/* Tells which limits a program has set for itself that also apply to the library inside it. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns whether RLIMIT_FSIZE allows a file of this size; growing it further would raise
 * SIGXFSZ. */
bool fan_file_limit_allows(uint64_t bytes);

extern atomic_bool fan_restricted_flag;

/* Returns whether the program has installed a seccomp filter that may kill it for a system call
 * that only the library makes. From then on the library makes only the system calls that the
 * program's call would need on an ordinary file: open, fstat, mmap and close for an open. */
static inline bool fan_restricted(void)
{
    return __builtin_expect(atomic_load_explicit(&fan_restricted_flag, memory_order_relaxed), 0);
}
