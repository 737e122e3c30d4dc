/*
 * The name of a real copy of an input: it says which file of which job the copy is of, so that
 * whoever comes across it (/proc/self/fd) can tell.
 */
#ifndef FAN_CLIENT_COPYNAME_H
#define FAN_CLIENT_COPYNAME_H

#include <stdbool.h>
#include <stdint.h>

#include "../job/job.h"

/* flags: those that the file was opened with. */
struct fan_copy_name {
    struct fan_view *view;
    uint64_t id;
    uint64_t flags;
};

enum { FAN_COPY_NAME_BYTES = 96 };

/* Writes "fanstore-copy.<job>.<view>.<id>.<flags>". Where it ends, at a NUL. */
char *fan_copy_name_put(const struct fan_copy_name *copy, char name[FAN_COPY_NAME_BYTES]);

/* Reads such a name, which may go on behind '.' or ' '. Whether it is one of this job. */
bool fan_copy_name_read(const char *name, struct fan_copy_name *copy);

/* The same of the path that /proc gives: of a memory file, or of a file in the job's directory. */
bool fan_copy_name_of_link(const char *link, struct fan_copy_name *copy);

#endif
