/*
 * Python programs: the job's own Python code is run in them when torch's DataLoader is loaded.
 */
#ifndef FAN_PRELOAD_PYTHON_HOOK_H
#define FAN_PRELOAD_PYTHON_HOOK_H

/* Called once, by the constructor, in a program that is attached to a job. Does nothing where the
 * program is no Python interpreter, or the job does not want to know orders. */
void fan_python_begin(void);

#endif
