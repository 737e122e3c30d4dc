/*
 * Examining the files behind the names that a scan has found. On a network file system each look is
 * a round trip, on a local one a walk through the kernel: both go faster by several threads.
 */
#ifndef FAN_PREPARE_EXAMINE_H
#define FAN_PREPARE_EXAMINE_H

#include "entries.h"

/* Examines all entries from scan->examined on. 0 or -ENOMEM; what cannot be examined carries its
 * error. */
int fan_scan_examine(struct fan_scan *scan);

#endif
