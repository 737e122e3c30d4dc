/*
 * Steps that concern all of the client at once: attaching a process to its job, and starting as a
 * fork child.
 */
#ifndef FAN_CLIENT_PROCESS_H
#define FAN_CLIENT_PROCESS_H

/* Attaches this process to a job, as fan_job_attach, and sets the file table's hooks. */
int fan_process_attach(const char *directory, const char *library);

/* Call it in a fork child before any other function of the client. Forgets what belongs to the
 * parent alone, and notes that this process, too, has the parent's outputs open. */
void fan_process_after_fork_child(void);

/* Makes libc call fan_file_before_fork and fan_process_after_fork_child at each fork. Further calls
 * do nothing. It allocates. */
void fan_process_watch_forks(void);

#endif
