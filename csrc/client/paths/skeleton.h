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

/* The same for a directory of outputs, by its path in the mount in normal form. */
int fan_skeleton_open_output(struct fan_view *view, const char *path, int flags);
int fan_skeleton_chdir_output(struct fan_view *view, const char *path);

/* After a directory of outputs was renamed or removed: the working directories and descriptors of
 * this node that stand in it go with it. What cannot be done is left. The paths are as they were
 * afterwards. */
void fan_skeleton_move(struct fan_view *view, char *from, char *to);
void fan_skeleton_remove(struct fan_view *view, const char *path);

#endif
