/*
 * Lists the outputs in a directory of the dataset, from its counterpart in the output tree.
 */
#ifndef FAN_CLIENT_TREE_ENTRIES_H
#define FAN_CLIENT_TREE_ENTRIES_H

#include "../job/ask.h"
#include "../job/job.h"

/* Takes a snapshot. An entry with the name of an input is the counterpart of that input. Returns 0
 * or -errno. */
int fan_tree_list(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                  struct fan_output_listing *listing);

#endif
