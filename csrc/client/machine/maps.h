/*
 * Reads the kernel's list of this process's mappings. Slow. Makes only system calls: does not call
 * malloc or take a lock.
 */
#pragma once

enum { FAN_MAPS_LINE_BYTES = 4200 }; /* of a line with a path of PATH_MAX */

/* Finds the mapping that contains `address`. Returns the path of its file, which lies in `line`; ""
 * if it has none; NULL if nothing is mapped there, or the list cannot be read. */
const char *fan_maps_path(const void *address, char line[FAN_MAPS_LINE_BYTES]);
