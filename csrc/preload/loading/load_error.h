/*
 * Makes dlerror's messages show the paths that the program gave.
 */
#ifndef FAN_PRELOAD_LOAD_ERROR_H
#define FAN_PRELOAD_LOAD_ERROR_H

/* Returns a path that does not exist, for the real dlopen to fail on; dlerror will then report that
 * `given` cannot be opened because of `error` (positive). */
const char *fan_load_refuse(const char *given, int error);

/* Records that `passed` is about to be loaded in place of `given`. */
void fan_load_note(const char *given, const char *passed);

#endif
