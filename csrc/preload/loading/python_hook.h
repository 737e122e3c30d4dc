/*
 * Runs the job's own Python code in Python programs when they load torch's DataLoader.
 */
#ifndef FAN_PRELOAD_PYTHON_HOOK_H
#define FAN_PRELOAD_PYTHON_HOOK_H

/* Called once, by the constructor, in a program that is attached to a job. Does nothing if the
 * program is no Python interpreter, or the job does not want orders. */
void fan_python_begin(void);

#endif
