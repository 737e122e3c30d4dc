/*
 * Descriptors of the library's own: moved out of the program's way, but no higher than the kernel's
 * table reaches without growing; closed on exec, and kept from the program's close, dup2,
 * close_range and closefrom. Whoever keeps one does so in a holder (descriptor + 1; 0: none), so
 * that it can move when the program asks for its number.
 */
#ifndef FAN_CLIENT_PARK_H
#define FAN_CLIENT_PARK_H

#include <stdatomic.h>
#include <stdbool.h>

enum { FAN_PARKED_MAX = 1024 };

/* Moves `fd` up into `holder`; `fd` itself is closed in any case. When another thread filled the
 * holder first, its descriptor is the answer. A vfork child's is held nowhere: the parent has no
 * such descriptor. The descriptor or -errno. */
int fan_park(int fd, atomic_int *holder);

/* The descriptor in a holder, or -1. */
static inline int fan_parked(const atomic_int *holder)
{
    return atomic_load_explicit(holder, memory_order_acquire) - 1;
}

/* Moves a parked descriptor to another number, because the program is about to replace what stands
 * under this one. In a vfork child it stays where it is, and is lost to that child. 0 or -errno. */
int fan_repark(int fd);

/* Moves a descriptor of the library's own that has the number `fd` above `above`: the child that is
 * about to be made will use the numbers up to there. */
void fan_vacate(int fd, int above);

/* Whether `fd` is one of ours. */
bool fan_is_parked(int fd);

/* Calls close_range(2) for the parts of [first, last] between parked descriptors. 0 or -errno. */
int fan_close_range_around(unsigned first, unsigned last, unsigned flags);

#endif
