/*
 * Which mount an absolute path lies in, by the letter: by the mount's prefix, by its alias, or by
 * the place where its programs and libraries are made real. And back: the path of a record.
 *
 * Paths are in normal form: no "//", "." or "..". No system call.
 */
#ifndef FAN_CLIENT_MOUNTS_H
#define FAN_CLIENT_MOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "job.h"

/* Behind the job directory: each mount's files that were made real for the kernel and the dynamic
 * linker lie in a folder of its number there. */
#define FAN_CODE_FOLDER "/code/"

/* The mount whose `code/<n>` a path begins with, and the rest, with its slash if it has one: or
 * NULL. */
struct fan_view *fan_code_begins(const char *path, const char **rest);

/* The mount whose `code/<n>` a path lies in (or is), and the rest: or NULL. */
struct fan_view *fan_code_match(const char *path, const char **rest);

/* The mount whose outputs lie where an absolute path of the kernel's leads, and the rest: or NULL.
 */
struct fan_view *fan_outputs_match(const char *path, const char **rest);

/* Whether a path begins with a prefix. The second and last bytes tell most others apart. */
static inline bool fan_begins_with(const char *path, size_t bytes, const struct fan_text *prefix)
{
    size_t length = prefix->bytes;
    return length > 1 && bytes >= length && path[1] == prefix->text[1] &&
           path[length - 1] == prefix->text[length - 1] &&
           (path[length] == '/' || path[length] == '\0') &&
           memcmp(path, prefix->text, length) == 0;
}

/* The mount that a path in the job directory stands for, and the rest: or NULL. */
struct fan_view *fan_job_match(const char *path, const char **rest);

/* fan_match_prefix of a path whose length is known. Inline: every path passes here. */
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

/* The mount that a path lies in (or is), and the rest: or NULL. */
struct fan_view *fan_match_prefix(const char *path, const char **rest);

/* The length of the part of a mount prefix that a path equals, being a directory above it; 0 when
 * it is none. */
size_t fan_match_above(const char *path, struct fan_view **view);

/* The path of a record in a tree at `top` that has the shape of the dataset, terminated. Its length
 * or -ENAMETOOLONG, -EIO. */
int64_t fan_path_below(const struct fan_text *top, const struct fan_dataset *dataset, uint64_t id,
                       char *buffer, size_t capacity);

/* The path of a record into `buffer`, terminated. Its length or -ENAMETOOLONG, -EIO. */
int64_t fan_full_path(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      char *buffer, size_t capacity);

#endif
