/*
 * Finds the mount of an absolute path from its text alone: by the mount's prefix, its alias, or the
 * folder where its programs and libraries are made real. Also makes the path of a record.
 *
 * Paths are in normal form: without "//", "." and "..". No function makes a system call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "job.h"

/* Below the job directory: a folder for each mount, named by its number, with the files that were
 * made real for the kernel and the dynamic linker. */
#define FAN_CODE_FOLDER "/code/"

/* Returns the mount whose `code/<n>` the path begins with, or NULL. Sets `rest` to the remainder,
 * with its slash if it has one. */
struct fan_view *fan_code_begins(const char *path, const char **rest);

/* Returns the mount whose `code/<n>` the path is or lies in, or NULL. Sets `rest` to the remainder.
 */
struct fan_view *fan_code_match(const char *path, const char **rest);

/* Returns the mount whose output tree an absolute path from the kernel lies in, or NULL. Sets
 * `rest` to the remainder. */
struct fan_view *fan_outputs_match(const char *path, const char **rest);

/* Returns whether a path begins with a prefix. Comparing the second and the last byte first rules
 * out most other paths. */
static inline bool fan_begins_with(const char *path, size_t bytes, const struct fan_text *prefix)
{
    size_t length = prefix->bytes;
    return length > 1 && bytes >= length && path[1] == prefix->text[1] &&
           path[length - 1] == prefix->text[length - 1] &&
           (path[length] == '/' || path[length] == '\0') &&
           memcmp(path, prefix->text, length) == 0;
}

/* Returns the mount that a path in the job directory stands for, or NULL. Sets `rest` to the
 * remainder. */
struct fan_view *fan_job_match(const char *path, const char **rest);

/* Does what fan_match_prefix does, for a path of known length. Inline, because every path goes
 * through it. */
static inline struct fan_view *fan_match_bytes(const char *path, size_t bytes, const char **rest)
{
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        struct fan_view *view = &fan_job.views[i];
        const struct fan_text *found = fan_begins_with(path, bytes, &view->prefix)  ? &view->prefix
                                       : fan_begins_with(path, bytes, &view->alias) ? &view->alias
                                                                                    : NULL;
        if (found != NULL) {
            *rest = path + found->bytes;
            while (**rest == '/')
                (*rest)++;
            return view;
        }
    }
    return fan_code_match(path, rest);
}

/* Returns the mount that the path is or lies in, or NULL. Sets `rest` to the remainder. */
struct fan_view *fan_match_prefix(const char *path, const char **rest);

/* If the path is a directory above a mount prefix, returns the length of the part of the prefix
 * that equals the path; otherwise 0. */
size_t fan_match_above(const char *path, struct fan_view **view);

/* Writes the path of a record below `top`, a tree with the dataset's directories, and a NUL.
 * Returns its length or -ENAMETOOLONG, -EIO. */
int64_t fan_path_below(const struct fan_text *top, const struct fan_dataset *dataset, uint64_t id,
                       char *buffer, size_t capacity);

/* Writes the path of a record in the mount to `buffer`, and a NUL. Returns its length or
 * -ENAMETOOLONG, -EIO. */
int64_t fan_full_path(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      char *buffer, size_t capacity);
