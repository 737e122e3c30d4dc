/* Wall-clock time, from a clock that all processes of the machine share. */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}
