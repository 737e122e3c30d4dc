/*
 * Cancellation of threads (pthread_cancel). A call that is a cancellation point in libc is one for
 * our files, too. It acts on a pending request at its beginning, so that a thread that ends there
 * holds none of the library's locks or memory. Waiting for the node daemon or for another rank is
 * no cancellation point; those waits have limits, and the thread ends at its next cancellation
 * point.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef void fan_cancel_fn(void);

/* The function pthread_testcancel, once it has been found: before glibc 2.34 only libpthread has
 * it, which a program without threads does not load. */
extern _Atomic(fan_cancel_fn *) fan_cancel_test __attribute__((visibility("hidden")));
fan_cancel_fn *fan_cancel_find(void);

/* Call it before a library is loaded, because libpthread may be loaded with it. */
void fan_cancel_look_again(void);

/* Whether this thread may be cancelled at any instruction (PTHREAD_CANCEL_ASYNCHRONOUS). */
extern __thread bool fan_cancel_anywhere;

/* A cancellation point: does not return if a request to cancel this thread is pending. */
static inline void fan_cancel_point(void)
{
    fan_cancel_fn *test = atomic_load_explicit(&fan_cancel_test, memory_order_relaxed);
    if (__builtin_expect(test == NULL, 0))
        test = fan_cancel_find();
    test();
}

/* Disables cancellation until fan_cancel_end. Returns whether it was enabled. */
bool fan_cancel_hold(void);
void fan_cancel_release(void);

static inline void fan_cancel_end(bool held)
{
    if (__builtin_expect(held, 0))
        fan_cancel_release();
}

/* Begins a call that changes data shared between threads. This is a cancellation point. Until
 * fan_cancel_end, a thread that may be cancelled at any instruction is not cancelled. */
static inline bool fan_cancel_begin(void)
{
    fan_cancel_point();
    return __builtin_expect(fan_cancel_anywhere, 0) && fan_cancel_hold();
}

/* Begins a call that holds a lock or memory while it makes calls that may be cancellation points:
 * until fan_cancel_end the thread is not cancelled. */
static inline bool fan_cancel_enter(void)
{
    fan_cancel_point();
    return fan_cancel_hold();
}

/* Calls close(2) without a cancellation point. */
int fan_close_quietly(int fd);
