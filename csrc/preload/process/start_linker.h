/*
 * Recognises the dynamic linker as a command (ld.so PROGRAM; ldd does this, too), because it opens
 * the program itself.
 */
#ifndef FAN_PRELOAD_START_LINKER_H
#define FAN_PRELOAD_START_LINKER_H

#include <stdbool.h>
#include <stddef.h>

/* Returns whether a path has the name of a dynamic linker. */
bool fan_is_linker(const char *path);

/* Returns the index of the program among the linker's arguments; 0 if there is none. */
size_t fan_linker_program(char *const argv[]);

#endif
