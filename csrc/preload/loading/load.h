/*
 * Loading libraries: what dlopen is given in place of a path in a mount (client/code/code.h).
 */
#ifndef FAN_PRELOAD_LOAD_H
#define FAN_PRELOAD_LOAD_H

/* Variables for the next program, when its LD_LIBRARY_PATH is not the one that its environment is
 * to have: WAS "=" the latter; or NONE: it is to have none. */
#define FAN_LIBRARY_PATH "LD_LIBRARY_PATH"
#define FAN_LIBRARY_PATH_WAS "FANSTORE_LD_LIBRARY_PATH"
#define FAN_LIBRARY_PATH_NONE "FANSTORE_NO_LD_LIBRARY_PATH"

/* Called once, by the constructor: puts LD_LIBRARY_PATH right in the environment, and notes it as
 * the dynamic linker keeps the one that a program was started with. */
void fan_load_begin(char **env);

#endif
