/*
 * Keeps freed memory mappings for the next caller that needs memory. Calls no malloc and takes no
 * lock: safe in signal handlers, after fork and in a vfork child. If a longjmp skips the call that
 * gives memory back, that memory is lost.
 */
#pragma once

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    FAN_SPARES = 16,                /* how many are kept at most */
    FAN_SPARE_KEPT_BYTES = 4 << 20, /* larger memory goes back to the kernel at once */
};

struct fan_spares {
    _Atomic(void *) kept[FAN_SPARES];
};

/* Returns memory of at least `bytes` bytes, aligned to 64, with arbitrary content, which the caller
 * gives back with fan_spare_give. Returns NULL if there is no memory. */
void *fan_spare_take(struct fan_spares *spares, size_t bytes);

void fan_spare_give(struct fan_spares *spares, void *memory);

/*
 * Declares a variable that is too large for the stack of a signal handler or of a small thread (16
 * KiB), such as two paths: a pointer to memory that is given back at the end of its scope. The
 * pointer is NULL if there is no memory. Do not use the macro in a function that ends in exec,
 * because the memory would not be given back.
 */
#define FAN_OFF_STACK(type, name)                                                                  \
    _Static_assert(sizeof(type) <= FAN_OFF_STACK_BYTES, "too large even for this");                \
    __attribute__((cleanup(fan_off_stack_end))) type *name = fan_off_stack()

struct fan_path {
    char text[PATH_MAX];
};

enum { FAN_OFF_STACK_BYTES = 16 << 10 }; /* one size for all: any kept memory fits */

void *fan_off_stack(void);
void fan_off_stack_end(void *variable);
