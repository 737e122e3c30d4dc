/*
 * Finds the caller: the library or program that contains an address.
 */
#ifndef FAN_PRELOAD_CALLER_H
#define FAN_PRELOAD_CALLER_H

#include <limits.h>
#include <stdbool.h>

/* Writes the path of the file that contains address `caller`, as the dynamic linker spells it.
 * Returns false if there is none. */
bool fan_caller_path(void *caller, char path[PATH_MAX]);

#endif
