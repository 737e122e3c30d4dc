#include "cancel.h"

#include <dlfcn.h>

#include "real.h"

_Atomic(fan_cancel_fn *) fan_cancel_test;
__thread bool fan_cancel_anywhere;

static void no_threads(void)
{
}

fan_cancel_fn *fan_cancel_find(void)
{
    int saved = errno;
    fan_cancel_fn *test = (fan_cancel_fn *)dlsym(RTLD_DEFAULT, "pthread_testcancel");
    if (test == NULL)
        test = no_threads;
    atomic_store_explicit(&fan_cancel_test, test, memory_order_relaxed);
    errno = saved;
    return test;
}

void fan_cancel_look_again(void)
{
    if (atomic_load_explicit(&fan_cancel_test, memory_order_relaxed) == no_threads)
        atomic_store_explicit(&fan_cancel_test, NULL, memory_order_relaxed);
}

bool fan_cancel_hold(void)
{
    int before = PTHREAD_CANCEL_DISABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before == PTHREAD_CANCEL_ENABLE;
}

/* Enables cancellation again. A thread that may be cancelled at any instruction first gets the
 * deferred type: otherwise pthread_setcancelstate ends it with NULL instead of PTHREAD_CANCELED
 * (glibc 2.36). */
void fan_cancel_release(void)
{
    bool anywhere = fan_cancel_anywhere;
    if (anywhere)
        REAL(pthread_setcanceltype)(PTHREAD_CANCEL_DEFERRED, NULL);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    if (anywhere) {
        fan_cancel_point();
        REAL(pthread_setcanceltype)(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    }
}

/* Sets the flag before the type changes, because from then on this thread may end at any
 * instruction. */
FAN_EXPORT int pthread_setcanceltype(int type, int *old)
{
    bool before = fan_cancel_anywhere;
    if (type == PTHREAD_CANCEL_ASYNCHRONOUS)
        fan_cancel_anywhere = true;
    int rc = REAL(pthread_setcanceltype)(type, old);
    if (rc != 0)
        fan_cancel_anywhere = before;
    else
        fan_cancel_anywhere = type == PTHREAD_CANCEL_ASYNCHRONOUS;
    return rc;
}
