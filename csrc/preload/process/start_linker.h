/*
 * The dynamic linker as a command (ld.so PROGRAM, and ldd, which is that): it opens the program by
 * itself.
 */
#ifndef FAN_PRELOAD_START_LINKER_H
#define FAN_PRELOAD_START_LINKER_H

#include <stdbool.h>
#include <stddef.h>

/* Whether a path is called as dynamic linkers are. */
bool fan_is_linker(const char *path);

/* Which of the linker's arguments is the program; 0: none. */
size_t fan_linker_program(char *const argv[]);

#endif
