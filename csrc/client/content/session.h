/*
 * This process's link to the node daemon: a socket, whose hang-up tells each side that the other
 * has ended, and the cache segment, whose descriptor came through it. The first thread with a
 * remote read or open makes the link; others wait for it, for a limited time. Never taken down: it
 * ends with the process, at exec, or with the daemon.
 *
 * A fork child makes its own when it needs one. A vfork child uses its parent's and never makes
 * one, because the socket would be closed when the child ends.
 */
#pragma once

#include <stdbool.h>

#include "cache_view.h"

/* Returns the cache; opens the session if there is none. Returns NULL if no daemon opens one, or
 * the daemon has ended. After a failure the next attempt comes at least a second later. */
struct fan_cache *fan_session(void);

/* Returns the cache if there is a session already, else NULL. */
struct fan_cache *fan_session_now(void);

/* Returns whether the daemon still serves, by one system call. If not, ends the session for
 * good. */
bool fan_session_check(void);

/* Ends the session, because the daemon broke the protocol or took this process for dead. */
void fan_session_end(void);

/* Closes the child's copy of the socket, which would keep the daemon from noticing the parent's
 * end. */
void fan_session_after_fork_child(void);
