/*
 * Recognises the dynamic linker run as a command (ld.so PROGRAM; ldd does this, too): it opens the
 * program by itself.
 */
#ifndef FAN_PRELOAD_START_LINKER_H
#define FAN_PRELOAD_START_LINKER_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a path has the name of a dynamic linker. */
bool fan_is_linker(const char *path);

/* The index of the program among the linker's arguments; 0: none. */
size_t fan_linker_program(char *const argv[]);

#endif
