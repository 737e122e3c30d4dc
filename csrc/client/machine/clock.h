/*
 * Reads the clock for limits and waits. Safe in signal handlers. Makes no system call if the kernel
 * has a vDSO.
 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Returns the time of CLOCK_MONOTONIC in ns. */
static inline int64_t fan_clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}
