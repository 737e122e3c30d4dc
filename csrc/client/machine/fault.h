/*
 * SIGBUS and SIGSEGV inside fan_copy become its return value, and a store to memory that may be
 * lost goes on in other memory; every other one goes where the program wants it. The program's own
 * handlers are kept here and answered from here, so that it sees its own settings and never ours.
 */
#ifndef FAN_CLIENT_FAULT_H
#define FAN_CLIENT_FAULT_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Installs the two handlers, once. Called before the first copy from a mapping, and before the
 * first count. */
void fan_fault_init(void);

/* Notes shared memory that this process can do without, the job's counters: where a page of it
 * cannot be had (SIGBUS: a full disk), all of it is replaced by memory of this process's own, which
 * nobody else reads. What does not begin on a page is not replaced. Once. */
void fan_fault_may_lose(void *memory, size_t bytes);

static inline bool fan_fault_is_ours(int signal)
{
    return signal == SIGBUS || signal == SIGSEGV;
}

/* sigaction(2) for one of the two signals: keeps the program's action beside ours. 0 or -errno. */
int fan_fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old);

#endif
