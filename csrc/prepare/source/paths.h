/* The paths of many entries at once. */
#ifndef FAN_PREPARE_PATHS_H
#define FAN_PREPARE_PATHS_H

#include <stdint.h>

#include "entries.h"

/* cffi: begin */
/* The bytes of each entry's relpath (0: the root), without end marks. Their sum. */
uint64_t fan_paths_measure(const struct fan_scan_entry *entries, const uint64_t *ids,
                           uint64_t count, uint64_t *lengths);

/* Writes the relpaths one behind another to `joined`, which has room for the sum. `lengths` are
 * what fan_paths_measure said. */
void fan_paths_join(const struct fan_scan_entry *entries, const char *names, const uint64_t *ids,
                    uint64_t count, const uint64_t *lengths, char *joined);
/* cffi: end */

/* The path of an entry into a buffer grown with realloc, NUL-terminated. The length or -ENOMEM. */
int64_t fan_scan_path(const struct fan_scan_entry *entries, const char *names, uint64_t id,
                      char **path, uint64_t *room);

#endif
