/*
 * This process's link to the node daemon: a socket, whose hang-up tells each side that the other
 * has ended, and the cache segment, whose descriptor came through it. The first thread with a
 * remote read or open makes the link; others wait for it, for a limited time. It ends with the
 * process, at exec, or with the daemon at its other end, which may be that of another job
 * (fanstore/node/visit.py). Then the next read asks this job's daemon for a new session.
 *
 * A fork child makes its own when it needs one. A vfork child uses its parent's and never makes
 * one, because the socket would be closed when the child ends.
 */
#pragma once

#include <stdbool.h>

#include "cache_view.h"

/* Returns the cache; opens the session if there is none. Returns NULL if no daemon opens one, or
 * too many have ended. After a failure the next attempt comes at least a second later. */
struct fan_cache *fan_session(void);

/* Returns the cache if there is a session already, else NULL. */
struct fan_cache *fan_session_now(void);

/* Returns whether `cache` is of the present session and its daemon still serves, by one system
 * call. If the daemon does not, ends the session. NULL is of no session. */
bool fan_session_check(const struct fan_cache *cache);

/* Ends the session of a pin, because the daemon broke the protocol or took this process for dead.
 * If the daemon still serves, there is no further session. Does nothing if the session has ended.
 */
void fan_session_end(const struct fan_pin *pin);

/* Closes the child's copy of the socket, which would keep the daemon from noticing the parent's
 * end. */
void fan_session_after_fork_child(void);
