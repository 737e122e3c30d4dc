/*
 * Makes files in the job directory under names that no one else uses. The caller completes the file
 * there and then moves it, or uses it without a name. No function calls malloc or takes a lock; all
 * are safe in vfork children. Also adds to the files there whose lines go to the job's report.
 */
#pragma once

#include <stddef.h>

/* Writes "<job directory>/<name>.<thread>.<count>" and a NUL. Returns 0 or -ENAMETOOLONG. A killed
 * process, or a thread of another PID namespace, may have left a file of that name: the caller must
 * try again. */
int fan_fresh_path(const char *name, char *to, size_t capacity);

/* Opens (O_PATH, O_NOFOLLOW and others in `flags`) a symbolic link to `target` whose name, which
 * begins with `name`, is removed again at once. Returns a descriptor or -errno. */
int fan_fresh_link(const char *target, const char *name, int flags);

/* Appends a line to `file` of the job directory, unless the file is long already. */
void fan_job_note(const char *file, const char *line);
