/*
 * Real directories for the dataset's: what chdir, getcwd and directory descriptors stand on. Made
 * when first needed, and only below a skeleton that FanStore made.
 */
#ifndef FAN_CLIENT_SKELETON_H
#define FAN_CLIENT_SKELETON_H

#include "../job/job.h"

/* Opens the real directory behind a directory record. A descriptor, -ENOENT when there can be
 * none, or another -errno. */
int fan_skeleton_open(struct fan_view *view, struct fan_dataset *dataset, uint64_t id, int flags);

/* chdir(2) into a directory record. 0 or -errno. */
int fan_skeleton_chdir(struct fan_view *view, struct fan_dataset *dataset, uint64_t id);

#endif
