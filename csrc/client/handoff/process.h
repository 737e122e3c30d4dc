/*
 * Steps that a process of a job takes once for all of the client: it attaches, and goes on as a
 * fork child.
 */
#ifndef FAN_CLIENT_PROCESS_H
#define FAN_CLIENT_PROCESS_H

/* Attaches this process to a job, as fan_job_attach, and tells the file table whom it serves. */
int fan_process_attach(const char *directory, const char *library);

/* In a fork child, before anything else of the client is called: what was the parent's alone is
 * forgotten, and the node daemon is told whose outputs this process has, too. */
void fan_process_after_fork_child(void);

/* Has libc call fan_file_before_fork and fan_process_after_fork_child, from the first call on. It
 * allocates. */
void fan_process_watch_forks(void);

#endif
