/*
 * Loading libraries: what dlopen is given in place of a path in a mount (client/code/code.h).
 */
#ifndef FAN_PRELOAD_LOAD_H
#define FAN_PRELOAD_LOAD_H

/* Called once, by the constructor: puts LD_LIBRARY_PATH right in the environment, and notes it as
 * the dynamic linker keeps the one that a program was started with. */
void fan_load_begin(char **env);

#endif
