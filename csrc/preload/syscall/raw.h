/*
 * Programs and libraries that make system calls of paths by themselves, as Rust's rustix does
 * (safetensors saves that way): their calls are redirected to this library when they are loaded.
 * Looked at are those with Rust's standard library in them; the rest goes by as ever.
 */
#ifndef FAN_PRELOAD_RAW_H
#define FAN_PRELOAD_RAW_H

#include <stdbool.h>

#define FAN_REDIRECT_ENV "FANSTORE_REDIRECT"

/* Called by the constructor: looks at the program itself. `redirect`: the value of
 * FAN_REDIRECT_ENV, or NULL; "0" leaves all code of the process as it is. */
void fan_raw_begin(const char *redirect);

/* Whether a library, by its path, is to be handed to fan_raw_loaded once it is loaded; not when it
 * is loaded already. */
bool fan_raw_wanted(const char *path);

/* Redirects the calls of a library that dlopen has just loaded: its handle. Where that is not
 * allowed the job's report names it. */
void fan_raw_loaded(void *handle);

#endif
