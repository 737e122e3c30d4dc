/* Writes the paths of many entries. */
#pragma once

#include <stdint.h>

#include "entries.h"

/* cffi: begin */
/* Computes the length of each entry's relpath (0: the root), without a NUL. Returns their sum. */
uint64_t fan_paths_measure(const struct fan_scan_entry *entries, const uint64_t *ids,
                           uint64_t count, uint64_t *lengths);

/* Writes the relpaths without separators to `joined`, which has room for all of them. lengths: from
 * fan_paths_measure. */
void fan_paths_join(const struct fan_scan_entry *entries, const char *names, const uint64_t *ids,
                    uint64_t count, const uint64_t *lengths, char *joined);
/* cffi: end */

/* Writes the path of an entry and a NUL to a buffer that grows with realloc. Returns the length or
 * -ENOMEM. */
int64_t fan_scan_path(const struct fan_scan_entry *entries, const char *names, uint64_t id,
                      char **path, uint64_t *room);
