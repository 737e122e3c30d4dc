/*
 * SIGBUS and SIGSEGV inside fan_copy become its return value, and a counter that a full disk does
 * not take ends counting; every other one goes where the program wants it. The program's own
 * handlers are kept here and answered from here, so that it sees its own settings and never ours.
 */
#ifndef FAN_CLIENT_FAULT_H
#define FAN_CLIENT_FAULT_H

#include <signal.h>
#include <stdbool.h>

/* Installs the two handlers, once. Called before the first copy from a mapping, and before the
 * first count. */
void fan_fault_init(void);

static inline bool fan_fault_is_ours(int signal)
{
    return signal == SIGBUS || signal == SIGSEGV;
}

/* sigaction(2) for one of the two signals: keeps the program's action beside ours. 0 or -errno. */
int fan_fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old);

#if !defined(__x86_64__)
#include <setjmp.h>
extern __thread sigjmp_buf *fan_fault_landing;
#endif

#endif
