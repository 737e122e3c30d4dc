/*
 * The name of a real copy of an input. It names the job and the file, so that code that meets the
 * copy (in /proc/self/fd) knows which input it is a copy of.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../job/job.h"

/* flags: the flags with which the file was opened. */
struct fan_copy_name {
    struct fan_view *view;
    uint64_t id;
    uint64_t flags;
};

enum { FAN_COPY_NAME_BYTES = 96 };

/* Writes "fanstore-copy.<job>.<view>.<id>.<flags>" and a NUL. Returns a pointer to the NUL. */
char *fan_copy_name_put(const struct fan_copy_name *copy, char name[FAN_COPY_NAME_BYTES]);

/* Parses such a name; more text may follow after a '.' or ' '. Returns whether it names a copy of
 * this job. */
bool fan_copy_name_read(const char *name, struct fan_copy_name *copy);

/* Like fan_copy_name_read, for a path from /proc: of a memory file, or of a file in the job's
 * directory. */
bool fan_copy_name_of_link(const char *link, struct fan_copy_name *copy);
