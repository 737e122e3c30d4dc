/* Starts the threads of the node daemon's core. */
#pragma once

#include <pthread.h>

/* Starts a thread that blocks all signals except those of its own faults: a blocked fault kills the
 * process before the transport's handler can run. Returns 0 or -errno. */
int fan_start_thread(pthread_t *thread, void *(*run)(void *), void *argument);
