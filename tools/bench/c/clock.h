/* Time that passes, and time in which a thread only waited for a processor. */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static inline uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* Nanoseconds in which this thread could have run and others did, since it began. 0 where the
 * kernel does not say. */
static inline uint64_t waited_ns(void)
{
    char text[128];
    unsigned long long ran, waited = 0;
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    if (fd >= 0)
        close(fd);
    if (bytes <= 0)
        return 0;
    text[bytes] = '\0';
    return sscanf(text, "%llu %llu", &ran, &waited) == 2 ? waited : 0;
}

/* What passed from `start`, without what was waited meanwhile; at least 1. */
static inline uint64_t without_waiting(uint64_t start, uint64_t end, uint64_t waited)
{
    return end - start > waited ? end - start - waited : 1;
}

#endif
