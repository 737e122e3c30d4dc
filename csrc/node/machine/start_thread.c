#include "start_thread.h"

#include <signal.h>

int fan_start_thread(pthread_t *thread, void *(*run)(void *), void *argument)
{
    sigset_t others, before;
    sigfillset(&others);
    sigdelset(&others, SIGSEGV);
    sigdelset(&others, SIGBUS);
    sigdelset(&others, SIGFPE);
    sigdelset(&others, SIGILL);
    pthread_sigmask(SIG_SETMASK, &others, &before);
    int rc = pthread_create(thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -rc;
}
