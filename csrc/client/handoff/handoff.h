/*
 * Handing open files on through exec: their descriptors survive, what they stand for is told to the
 * new program in FANSTORE_FDS as "<arena fd>:<store fd>,...;<fd>.<arena>.<slot>,...".
 */
#ifndef FAN_CLIENT_HANDOFF_H
#define FAN_CLIENT_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FAN_HANDOFF_ENV "FANSTORE_FDS"

/* What exec keeps. */
struct fan_handoff_need {
    size_t bytes;      /* room for the text that fan_handoff_export writes; 0: nothing is kept */
    bool placeholders; /* some descriptors mean something to this library alone */
};

/* The most that a string of an environment may have. */
enum { FAN_HANDOFF_BYTES_MAX = 1 << 17 };

void fan_handoff_measure(struct fan_handoff_need *need);

/* Before a program starts that the library cannot enter: the placeholders that it would inherit
 * become real files (move.h), with the same numbers, content and offset. Those for which that fails
 * stay placeholders. This process notices nothing but in /proc. */
void fan_handoff_make_real(void);

/* Describes the descriptors that exec keeps, and lets their arenas through it. The length without
 * the NUL (0: there are none), or -E2BIG. `counted`: the new program's references come on top of
 * this process's, which goes on (posix_spawn, a vfork child). Safe in a vfork child. */
ssize_t fan_handoff_export(char *text, size_t capacity, bool counted);

/* Undoes it after an exec that failed. */
void fan_handoff_cancel(bool counted);

/* After a posix_spawn that succeeded: the arenas close on exec again. */
void fan_handoff_done(void);

/* Takes over what the program before exec described. Stale or wrong text adopts nothing. */
void fan_handoff_adopt(const char *text);

#endif
