/*
 * This process's link to the node daemon: a socket, whose hang-up tells each side of the other's
 * end, and the cache segment that came through it. Made by the first remote read or open, whichever
 * thread comes first; the others wait for it, for a bounded time. Never taken down: it ends with
 * the process, at exec, or with the daemon.
 *
 * A fork child has none until it needs one. A vfork child uses its parent's and makes none, for the
 * socket would be closed when it goes.
 */
#ifndef FAN_CLIENT_SESSION_H
#define FAN_CLIENT_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "cache_view.h"

/* Returns the cache, and opens the session if there is none. NULL if no daemon gives one, or the
 * daemon is gone. After a failure the next attempt comes a second later at the earliest. */
struct fan_cache *fan_session(void);

/* Returns the cache if there is a session already, else NULL. */
struct fan_cache *fan_session_now(void);

/* Whether the daemon still serves. One system call; false ends the session for good. */
bool fan_session_check(void);

/* Ends the session: the daemon broke the protocol, or took this process for dead. */
void fan_session_end(void);

/* Closes the child's copy of the socket: it would keep the daemon from noticing that the parent
 * ended. */
void fan_session_after_fork_child(void);

#endif
