/*
 * Redirects the system calls of programs and libraries that make calls with paths without libc, as
 * Rust's rustix does (safetensors saves files that way). Does so when they are loaded, and only for
 * those that contain Rust's standard library.
 */
#pragma once

#include <stdbool.h>

#define FAN_REDIRECT_ENV "FANSTORE_REDIRECT"

/* The constructor calls it: redirects the calls of the program itself. redirect: the value of
 * FAN_REDIRECT_ENV, or NULL; "0" leaves all code of the process unchanged. */
void fan_raw_begin(const char *redirect);

/* Returns whether to call fan_raw_loaded after loading the library at `path`; false if it is loaded
 * already. */
bool fan_raw_wanted(const char *path);

/* Redirects the calls of a library that dlopen has just loaded, by its handle. If that is not
 * allowed, the job's report names the library. */
void fan_raw_loaded(void *handle);

/* Redirects the calls in loaded, executable code that can be redirected. No other thread may run
 * the code yet. Returns how many it redirected, or -errno if the memory cannot be written, or no
 * free memory is near enough; the other calls stay as they are. */
int fan_raw_redirect(unsigned char *begin, unsigned char *end);

/* Leads from a redirected system call to syscall(2) of this library and back: the redirected code
 * jumps here, with the call's registers, and in rcx the address at which to continue. For that code
 * it behaves like the instruction `syscall`, which changes only rax, rcx and r11. */
extern void fan_raw_enter(void);

/* Returns whether this processor can save the vector registers. */
bool fan_raw_can_enter(void);
