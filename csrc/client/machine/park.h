/*
 * Parks the library's own descriptors: moves them to high numbers, which programs do not use, but
 * not so high that the kernel's table would have to grow. Parked descriptors are close-on-exec and
 * protected from the program's close, dup2, close_range and closefrom. Code that keeps one stores
 * it in a holder (descriptor + 1; 0: none), so that the descriptor can move when the program wants
 * its number.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

enum { FAN_PARKED_MAX = 1024 };

/* Moves `fd` to a high number and stores that in `holder`; closes `fd` in any case. If another
 * thread filled the holder first, returns its descriptor. In a vfork child the holder stays empty,
 * because the parent has no such descriptor. Returns the descriptor or -errno. */
int fan_park(int fd, atomic_int *holder);

/* Returns the descriptor in a holder, or -1. */
static inline int fan_parked(const atomic_int *holder)
{
    return atomic_load_explicit(holder, memory_order_acquire) - 1;
}

/* Moves a parked descriptor to another number, because the program is about to use this one. In a
 * vfork child the descriptor does not move, and that child loses it. Returns 0 or -errno. */
int fan_repark(int fd);

/* If `fd` is one of the library's own descriptors, moves it above `above`, because a child is about
 * to be made that uses the numbers up to `above`. */
void fan_vacate(int fd, int above);

/* Returns whether `fd` is a parked descriptor. */
bool fan_is_parked(int fd);

/* Calls close_range(2) for the parts of [first, last] between parked descriptors. Returns 0 or
 * -errno. */
int fan_close_range_around(unsigned first, unsigned last, unsigned flags);
