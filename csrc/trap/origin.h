/*
 * Recognises the files that stand for a mount's files in processes without the library. The name of
 * a copy contains its view and record, and directories lie in this supervisor's own tree, so a link
 * in /proc shows which file of which mount a descriptor stands for.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../client/content/copyname.h"
#include "../client/files/filetable.h"
#include "../client/job/job.h"

/* The path of the tree, below the job's directory. */
extern char fan_origin_root[PATH_MAX];

/* Makes a name for the copy of a record, without '/'. */
void fan_origin_name(struct fan_view *view, uint64_t id, char name[FAN_COPY_NAME_BYTES]);

/* Rewrites a link of /proc in place: that of a copy, or of a directory of the tree or of a
 * skeleton, becomes the path in the mount; others do not change. Returns the length. */
int fan_origin_shown(char to[PATH_MAX], size_t length);

/* Does what fan_origin_shown does for the path of a directory of the tree, or of a placeholder file
 * there. */
int fan_origin_shown_path(char to[PATH_MAX], size_t length);

/* Returns whether a link leads to a stand-in for a file of a mount. */
bool fan_origin_is_ours(const char *link);

/* Writes the tree path of a directory, which is given by its path in a mount. Returns 0 or
 * -ENAMETOOLONG. */
int fan_origin_tree(const struct fan_view *view, const char *relpath, char to[PATH_MAX]);
