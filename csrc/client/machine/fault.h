/*
 * Handles SIGBUS and SIGSEGV. A signal inside fan_copy becomes its return value; after a fault on
 * memory that may be lost, the store continues in other memory; any other signal goes to the
 * program's own action. This file keeps the program's actions and reports them, so that the program
 * never sees the library's handlers.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

/* Installs the two handlers, once. Called before the first copy from a mapping, and before the
 * first count. */
void fan_fault_init(void);

/* Notes shared memory that this process does not need: the job's counters. If the kernel cannot
 * provide a page of this memory (SIGBUS: a full disk), all of it is replaced by private memory,
 * which no other process reads. Memory that does not begin on a page is not replaced. Call it
 * once. */
void fan_fault_may_lose(void *memory, size_t bytes);

/* Calls sigaction(2) for any signal, without libc's function, which the library wraps. Returns 0 or
 * -errno. */
int fan_kernel_sigaction(int signal, const struct sigaction *action, struct sigaction *old);

static inline bool fan_fault_is_ours(int signal)
{
    return signal == SIGBUS || signal == SIGSEGV;
}

/* Does sigaction(2) for one of the two signals: stores the program's action and leaves the
 * library's handler in place. Returns 0 or -errno. */
int fan_fault_sigaction(int signal, const struct sigaction *action, struct sigaction *old);
