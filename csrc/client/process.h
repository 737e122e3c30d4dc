/*
 * What a process of a job does once for all of the client: it goes on as a fork child.
 */
#ifndef FAN_CLIENT_PROCESS_H
#define FAN_CLIENT_PROCESS_H

/* In a fork child, before anything else of the client is called: what was the parent's alone is
 * forgotten, and the node daemon is told whose outputs this process has, too. */
void fan_process_after_fork_child(void);

#endif
