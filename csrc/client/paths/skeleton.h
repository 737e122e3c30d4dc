/*
 * Real directories for the dataset's, for chdir, getcwd and directory descriptors. Made
 * when first needed, and only below a skeleton that FanStore made.
 */
#ifndef FAN_CLIENT_SKELETON_H
#define FAN_CLIENT_SKELETON_H

#include "../job/job.h"

/* Makes one directory. 0, also where it is there already; or -errno. */
typedef int fan_make_directory(const char *path);

/* Makes the directory `path` and those above it that are missing. Of those above, none that ends
 * within the first `start` bytes is made. make: NULL for mode 0700. 0 or -errno. */
int fan_make_directories(char *path, size_t start, fan_make_directory *make);

/* Opens the real directory behind a directory record. A descriptor, -ENOENT when there can be
 * none, or another -errno. */
int fan_skeleton_open(struct fan_view *view, struct fan_dataset *dataset, uint64_t id, int flags);

/* chdir(2) into a directory record. 0 or -errno. */
int fan_skeleton_chdir(struct fan_view *view, struct fan_dataset *dataset, uint64_t id);

#endif
