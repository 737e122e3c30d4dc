/*
 * Examines the files whose names a scan has found, in several threads: each lstat takes a round
 * trip on a network file system.
 */
#ifndef FAN_PREPARE_EXAMINE_H
#define FAN_PREPARE_EXAMINE_H

#include "entries.h"

/* Examines all entries from scan->examined on. Returns 0 or -ENOMEM; an entry that cannot be
 * examined holds its error. */
int fan_scan_examine(struct fan_scan *scan);

#endif
