/*
 * What stands in for a mount's files in processes without the library, and how it is told from
 * others: copies carry view and record in their name, directories lie in a tree of this
 * supervisor's own, so that a link of /proc says which file of which mount a descriptor is.
 */
#ifndef FAN_TRAP_ORIGIN_H
#define FAN_TRAP_ORIGIN_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../client/content/copyname.h"
#include "../client/files/filetable.h"
#include "../client/job/job.h"

/* The tree's place: below the job's directory. */
extern char fan_origin_root[PATH_MAX];

/* A name for the copy of a record; no '/'. */
void fan_origin_name(struct fan_view *view, uint64_t id, char name[FAN_COPY_NAME_BYTES]);

/* The record that a link of /proc names, if it is one of a copy. */
bool fan_origin_record(const char *link, struct fan_view **view, uint64_t *id);

/* Rewrites a link of /proc in place: a copy's, a directory's of the tree or of a skeleton becomes
 * the path in the mount; others stay. The length. */
int fan_origin_shown(char to[PATH_MAX], size_t length);

/* Likewise a path that names a directory of the tree, or a file there, which means nothing. */
int fan_origin_shown_path(char to[PATH_MAX], size_t length);

/* Whether a link leads to something that stands in for a file of a mount. */
bool fan_origin_is_ours(const char *link);

/* The path in the tree of a directory, given by its path in a mount. 0 or -ENAMETOOLONG. */
int fan_origin_tree(const struct fan_view *view, const char *relpath, char to[PATH_MAX]);

#endif
