/*
 * Loads libraries of a mount: replaces a path in a mount before the real dlopen gets it
 * (client/code/code.h). Makes dlerror's messages show the paths that the program gave.
 */
#pragma once

/* The constructor calls it once. Puts the program's own LD_LIBRARY_PATH back into the environment,
 * and remembers it, because the dynamic linker remembers the value at the start. */
void fan_load_begin(char **env);

/* Returns a path that does not exist, for the real dlopen to fail on; dlerror will then report that
 * `given` cannot be opened because of `error` (positive). */
const char *fan_load_refuse(const char *given, int error);

/* Records that `passed` is about to be loaded in place of `given`. */
void fan_load_note(const char *given, const char *passed);

/* The constructor calls it once, in a program that is attached to a job: runs the code in
 * fanstore/in_job in Python programs that load torch's DataLoader or tf.data. Does nothing if the
 * program is no Python interpreter, or the job wants no announcements. argv: the program's
 * arguments. */
void fan_python_begin(char *const argv[]);
