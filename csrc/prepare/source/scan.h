/*
 * Walking a source tree: every entry under a directory, breadth first, the children of each
 * directory together and sorted by name. That is the order of the index's records. Not safe for
 * concurrent use of one scan.
 */
#ifndef FAN_PREPARE_SCAN_H
#define FAN_PREPARE_SCAN_H

#include "entries.h"

/* cffi: begin */
/* Starts at the directory `root_fd`. What is more than `heap_bytes` goes to files in `scratch_fd`
 * (-1: nothing does). Both are borrowed. 0 or -errno. */
int fan_scan_init(struct fan_scan *scan, int root_fd, int scratch_fd, uint64_t heap_bytes);

/* Lists directories until at least `entries` more were found, which several threads examine.
 * 1: there is more to list; 0: the scan is complete; -ENOMEM, or -errno of a file in scratch_fd.
 * A file that cannot be read has its error noted in its entry, and is passed over. */
int fan_scan_step(struct fan_scan *scan, uint64_t entries);

/* Frees what a scan that was begun holds. */
void fan_scan_fini(struct fan_scan *scan);
/* cffi: end */

#endif
