/*
 * Redirects the system calls of programs and libraries that make calls with paths by themselves, as
 * Rust's rustix does (safetensors saves files that way). This happens when they are loaded, and
 * only for those that contain Rust's standard library.
 */
#ifndef FAN_PRELOAD_RAW_H
#define FAN_PRELOAD_RAW_H

#include <stdbool.h>

#define FAN_REDIRECT_ENV "FANSTORE_REDIRECT"

/* Called by the constructor: redirects the calls of the program itself. redirect: the value of
 * FAN_REDIRECT_ENV, or NULL; "0" leaves all code of the process alone. */
void fan_raw_begin(const char *redirect);

/* Whether to call fan_raw_loaded for the library at a path after loading it; false if it is loaded
 * already. */
bool fan_raw_wanted(const char *path);

/* Redirects the calls of a library that dlopen has just loaded, by its handle. If that is not
 * allowed, the job's report names the library. */
void fan_raw_loaded(void *handle);

#endif
