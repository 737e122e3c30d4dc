/*
 * Memory of the kernel's that is kept for whoever needs some next. Neither malloc nor a lock: to be
 * had in signal handlers, after fork and in a vfork child. What a jump took its user away from is
 * lost.
 */
#ifndef FAN_COMMON_SPARE_H
#define FAN_COMMON_SPARE_H

#include <stdatomic.h>
#include <stddef.h>

enum {
    FAN_SPARES = 16,                /* kept at most */
    FAN_SPARE_KEPT_BYTES = 4 << 20, /* what is larger goes back to the kernel at once */
};

struct fan_spares {
    _Atomic(void *) kept[FAN_SPARES];
};

/* At least `bytes`, on a boundary of 64, with anything in them; the caller's until it gives them
 * back. NULL: there is no memory. */
void *fan_spare_take(struct fan_spares *spares, size_t bytes);

void fan_spare_give(struct fan_spares *spares, void *memory);

#endif
