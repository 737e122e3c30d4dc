/*
 * dlerror's texts: with the paths that the program gave.
 */
#ifndef FAN_PRELOAD_LOAD_ERROR_H
#define FAN_PRELOAD_LOAD_ERROR_H

/* A path that is nowhere, for the real dlopen to fail with; dlerror will then say of `given` that
 * it cannot be opened because of `error` (positive). */
const char *fan_load_refuse(const char *given, int error);

/* `passed` is about to be loaded in the place of `given`. */
void fan_load_note(const char *given, const char *passed);

#endif
