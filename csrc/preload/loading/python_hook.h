/*
 * Runs the code in fanstore/in_job in Python programs that load torch's DataLoader or tf.data.
 */
#ifndef FAN_PRELOAD_PYTHON_HOOK_H
#define FAN_PRELOAD_PYTHON_HOOK_H

/* The constructor calls it once, in a program that is attached to a job. Does nothing if the
 * program is no Python interpreter, or the job wants no announcements. */
void fan_python_begin(void);

#endif
