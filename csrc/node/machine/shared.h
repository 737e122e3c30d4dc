/*
 * The node daemon's accesses to fields of the cache segment that its clients touch too. Each
 * accessor names the access of a client that it pairs with.
 */
#pragma once

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "../../common/sys.h"

/* Accesses to the state of an entry or a pin. These four accesses, on either side, are in one total
 * order, which keeps a block in the cache while it is read (cache_format.h). */
static inline uint32_t fan_total_load(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_SEQ_CST);
}

static inline void fan_total_store(uint32_t *field, uint32_t value)
{
    __atomic_store_n(field, value, __ATOMIC_SEQ_CST);
}

/* Changes a pin from WANTED to HELD or FAILED, and so publishes its entry or error. Returns false
 * if the client has withdrawn the want. */
static inline bool fan_total_change(uint32_t *field, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(field, &from, to, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

/* Reads and clears a field that clients set before they ring the doorbell. Pairs with their
 * fetch-or and increment. */
static inline uint64_t fan_take64(uint64_t *field)
{
    return __atomic_exchange_n(field, 0, __ATOMIC_SEQ_CST);
}

static inline uint32_t fan_take32(uint32_t *field)
{
    return __atomic_exchange_n(field, 0, __ATOMIC_SEQ_CST);
}

/* Pairs with the release store that publishes the field. */
static inline uint32_t fan_acquire32(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

static inline uint64_t fan_acquire64(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_ACQUIRE);
}

static inline void fan_release32(uint32_t *field, uint32_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELEASE);
}

/* Accesses to fields whose order another access determines: hints, counts, and fields that a state
 * publishes. */
static inline uint32_t fan_relaxed32(const uint32_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static inline uint64_t fan_relaxed64(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

static inline void fan_put32(uint32_t *field, uint32_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
}

static inline void fan_put64(uint64_t *field, uint64_t value)
{
    __atomic_store_n(field, value, __ATOMIC_RELAXED);
}

/* Adds to a statistic: one thread adds, any thread may read. */
static inline void fan_add64(uint64_t *field, uint64_t amount)
{
    fan_put64(field, fan_relaxed64(field) + amount);
}

/* Adds to a statistic to which several threads add. */
static inline void fan_count64(uint64_t *field, uint64_t amount)
{
    __atomic_fetch_add(field, amount, __ATOMIC_RELAXED);
}

/* Sleeps while `*field` is `seen`, at most `limit_ns`. */
static inline void fan_futex_wait(const uint32_t *field, uint32_t seen, uint64_t limit_ns)
{
    struct timespec limit = {.tv_sec = (time_t)(limit_ns / 1000000000),
                             .tv_nsec = (long)(limit_ns % 1000000000)};
    FAN_SYS(futex, field, FUTEX_WAIT, seen, &limit);
}

static inline void fan_futex_wake(const uint32_t *field)
{
    FAN_SYS(futex, field, FUTEX_WAKE, INT_MAX);
}

static inline uint64_t fan_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
