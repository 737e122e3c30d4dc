/*
 * Cancellation of threads (pthread_cancel). What libc makes a cancellation point is one of a file
 * of ours, too: a pending request is acted on when the call begins, before anything was done, so
 * that a thread that ends there holds nothing of ours. Waiting for the node daemon or for another
 * rank is no such point; those waits have limits, and the thread ends at its next one.
 */
#ifndef FAN_PRELOAD_CANCEL_H
#define FAN_PRELOAD_CANCEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

typedef void fan_cancel_fn(void);

/* pthread_testcancel, once it was looked for: a libc before 2.34 has it in libpthread alone, which
 * a program without threads does not load. */
extern _Atomic(fan_cancel_fn *) fan_cancel_test __attribute__((visibility("hidden")));
fan_cancel_fn *fan_cancel_find(void);

/* A library is about to be loaded: libpthread may come with it. */
void fan_cancel_look_again(void);

/* Whether this thread may be cancelled at any instruction (PTHREAD_CANCEL_ASYNCHRONOUS). */
extern __thread bool fan_cancel_anywhere;

/* A cancellation point: does not return when this thread is to end. */
static inline void fan_cancel_point(void)
{
    fan_cancel_fn *test = atomic_load_explicit(&fan_cancel_test, memory_order_relaxed);
    if (__builtin_expect(test == NULL, 0))
        test = fan_cancel_find();
    test();
}

/* Puts cancellation off until fan_cancel_end. Whether it was on. */
bool fan_cancel_hold(void);
void fan_cancel_release(void);

static inline void fan_cancel_end(bool held)
{
    if (__builtin_expect(held, 0))
        fan_cancel_release();
}

/* Begins a call that changes what threads share. It is a cancellation point; from here to
 * fan_cancel_end a thread that may be cancelled at any instruction is not. */
static inline bool fan_cancel_begin(void)
{
    fan_cancel_point();
    return __builtin_expect(fan_cancel_anywhere, 0) && fan_cancel_hold();
}

/* Begins one that holds something while it calls what may be cancellation points. */
static inline bool fan_cancel_enter(void)
{
    fan_cancel_point();
    return fan_cancel_hold();
}

/* close(2) that is no cancellation point. */
int fan_close_quietly(int fd);

#endif
