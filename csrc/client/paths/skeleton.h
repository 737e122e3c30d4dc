/*
 * Makes real directories that stand for those of the dataset, for chdir, getcwd and directory
 * descriptors. Each is made when it is first needed, and only below a skeleton that FanStore made.
 */
#pragma once

#include "../job/job.h"

/* Makes one directory. Returns 0, also if the directory exists already, or -errno. */
typedef int fan_make_directory(const char *path);

/* Makes the directory `path` and the missing ones above it, except those whose path is within the
 * first `start` bytes. make: makes one directory; NULL: make it with mode 0700. Returns 0 or
 * -errno. */
int fan_make_directories(char *path, size_t start, fan_make_directory *make);

/* Opens the real directory of a directory record. Returns a descriptor, -ENOENT if there can be no
 * such directory, or another -errno. */
int fan_skeleton_open(struct fan_view *view, struct fan_dataset *dataset, uint64_t id, int flags);

/* Does chdir(2) into a directory record. Returns 0 or -errno. */
int fan_skeleton_chdir(struct fan_view *view, struct fan_dataset *dataset, uint64_t id);
