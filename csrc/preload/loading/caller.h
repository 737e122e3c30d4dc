/*
 * Who calls: the library or program that an address is of.
 */
#ifndef FAN_PRELOAD_CALLER_H
#define FAN_PRELOAD_CALLER_H

#include <limits.h>
#include <stdbool.h>

/* The path of the file that `caller` lies in, in the dynamic linker's spelling. false: none does.
 */
bool fan_caller_path(void *caller, char path[PATH_MAX]);

#endif
