/*
 * Walks a source tree: all entries below a directory, breadth first, the children of each directory
 * together and sorted by name, which is the order of the records in an index. Only one thread at a
 * time may use a scan.
 */
#pragma once

#include "entries.h"

/* cffi: begin */
/* Starts a scan at the directory `root_fd`. Data beyond `heap_bytes` goes to files in `scratch_fd`
 * (-1: all stays on the heap). Both are borrowed. Returns 0 or -errno. */
int fan_scan_init(struct fan_scan *scan, int root_fd, int scratch_fd, uint64_t heap_bytes);

/* Lists directories until `entries` more were found or none is left; several threads examine the
 * entries. Returns 1 if there is more to list, 0 if the scan is complete, -ENOMEM, or the -errno of
 * a file in scratch_fd. A file that cannot be examined has the error in its entry. */
int fan_scan_step(struct fan_scan *scan, uint64_t entries);

/* Frees a scan. Only for one that was started. */
void fan_scan_fini(struct fan_scan *scan);
/* cffi: end */

/* Examines all entries from scan->examined on, in several threads: each lstat takes a round trip on
 * a network file system. Returns 0 or -ENOMEM; an entry that cannot be examined holds its error. */
int fan_scan_examine(struct fan_scan *scan);
