/*
 * Loads libraries of a mount: replaces a path in a mount before the real dlopen gets it
 * (client/code/code.h).
 */
#ifndef FAN_PRELOAD_LOAD_H
#define FAN_PRELOAD_LOAD_H

/* The constructor calls it once. Puts the program's own LD_LIBRARY_PATH back into the environment,
 * and remembers it, because the dynamic linker remembers the value at the start. */
void fan_load_begin(char **env);

#endif
