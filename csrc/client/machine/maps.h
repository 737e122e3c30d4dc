/*
 * The kernel's own list of mappings. Slow. System calls alone: neither malloc nor a lock.
 */
#ifndef FAN_CLIENT_MAPS_H
#define FAN_CLIENT_MAPS_H

enum { FAN_MAPS_LINE_BYTES = 4200 }; /* a line of it with a path of PATH_MAX */

/* Finds the mapping that has `address` in it, and the path behind it; "" of one without. The path
 * lies in `line`; NULL: nothing is mapped there, or the list cannot be read. */
const char *fan_maps_path(const void *address, char line[FAN_MAPS_LINE_BYTES]);

#endif
