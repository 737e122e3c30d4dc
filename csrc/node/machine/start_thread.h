/* Starting the threads of the node daemon's core. */
#ifndef FAN_NODE_START_THREAD_H
#define FAN_NODE_START_THREAD_H

#include <pthread.h>

/* A thread that takes no signals but those of its own faults: were these blocked, they would kill
 * before the transport's handler saw them. 0 or -errno. */
int fan_start_thread(pthread_t *thread, void *(*run)(void *), void *argument);

#endif
