/*
 * Hands open files on through exec. The descriptors survive exec; FANSTORE_FDS tells the new
 * program what they stand for, as "<arena fd>:<store fd>,...;<fd>.<arena>.<slot>,...".
 */
#ifndef FAN_CLIENT_HANDOFF_H
#define FAN_CLIENT_HANDOFF_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define FAN_HANDOFF_ENV "FANSTORE_FDS"

/* The needs of the descriptors that exec keeps. */
struct fan_handoff_need {
    size_t bytes;      /* room for the text that fan_handoff_export writes; 0: nothing is kept */
    bool placeholders; /* some descriptors mean something to this library alone */
};

/* The limit for one string of an environment. */
enum { FAN_HANDOFF_BYTES_MAX = 1 << 17 };

void fan_handoff_measure(struct fan_handoff_need *need);

/* Call it before a program starts that the library cannot enter. Turns the placeholders that the
 * program would inherit into real files (move.h) with the same numbers, content and offset. If that
 * fails for one, it stays a placeholder. This process sees the change only in /proc. */
void fan_handoff_make_real(void);

/* Describes the descriptors that exec keeps, and lets their arenas survive exec. Returns the length
 * without the NUL (0: there are none), or -E2BIG. counted: this process goes on (posix_spawn, a
 * vfork child), so the new program's references are counted in addition. Safe in a vfork child. */
ssize_t fan_handoff_export(char *text, size_t capacity, bool counted);

/* Undoes fan_handoff_export after an exec that failed. */
void fan_handoff_cancel(bool counted);

/* Call it after a posix_spawn that succeeded: makes the arenas close-on-exec again. */
void fan_handoff_done(void);

/* Takes over the files that the program before exec described. Does nothing if the text is stale or
 * wrong. */
void fan_handoff_adopt(const char *text);

#endif
