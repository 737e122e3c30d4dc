/*
 * Memory of the kernel's that is kept for whoever needs some next. Neither malloc nor a lock: to be
 * had in signal handlers, after fork and in a vfork child. What a jump took its user away from is
 * lost.
 */
#ifndef FAN_COMMON_SPARE_H
#define FAN_COMMON_SPARE_H

#include <limits.h>
#include <stdatomic.h>
#include <stddef.h>

enum {
    FAN_SPARES = 16,                /* kept at most */
    FAN_SPARE_KEPT_BYTES = 4 << 20, /* larger memory goes back to the kernel at once */
};

struct fan_spares {
    _Atomic(void *) kept[FAN_SPARES];
};

/* At least `bytes`, on a boundary of 64, with anything in them; the caller's until it gives them
 * back. NULL: there is no memory. */
void *fan_spare_take(struct fan_spares *spares, size_t bytes);

void fan_spare_give(struct fan_spares *spares, void *memory);

/*
 * A variable that is too large for the stack of a signal handler or of a small thread (16 KiB), as
 * two paths are: a pointer to memory that is given back where its scope ends. NULL: there is no
 * memory. Not for what ends in exec, which gives nothing back.
 */
#define FAN_OFF_STACK(type, name)                                                                  \
    _Static_assert(sizeof(type) <= FAN_OFF_STACK_BYTES, "too large even for this");                \
    __attribute__((cleanup(fan_off_stack_end))) type *name = fan_off_stack()

struct fan_path {
    char text[PATH_MAX];
};

enum { FAN_OFF_STACK_BYTES = 16 << 10 }; /* of all, so that any kept one will do */

void *fan_off_stack(void);
void fan_off_stack_end(void *variable);

#endif
