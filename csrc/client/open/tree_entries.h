/*
 * The outputs in a directory of the dataset, out of its counterpart in the output tree.
 */
#ifndef FAN_CLIENT_TREE_ENTRIES_H
#define FAN_CLIENT_TREE_ENTRIES_H

#include "../job/ask.h"
#include "../job/job.h"

/* A snapshot: what has the name of an input is the counterpart of that. 0 or -errno. */
int fan_tree_list(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                  struct fan_output_listing *listing);

#endif
