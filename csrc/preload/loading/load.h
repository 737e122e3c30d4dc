/*
 * Loading libraries: replaces a path in a mount before dlopen gets it (client/code/code.h).
 */
#ifndef FAN_PRELOAD_LOAD_H
#define FAN_PRELOAD_LOAD_H

/* Called once, by the constructor: restores the program's own LD_LIBRARY_PATH in the environment,
 * and remembers it, as the dynamic linker remembers the one with which a program was started. */
void fan_load_begin(char **env);

#endif
