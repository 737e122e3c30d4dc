/*
 * Finds the caller: the library or program that contains an address.
 */
#ifndef FAN_PRELOAD_CALLER_H
#define FAN_PRELOAD_CALLER_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path, in the dynamic linker's spelling, of the file that contains address `caller`.
 * false: there is none. */
bool fan_caller_path(void *caller, char path[PATH_MAX]);

#endif
