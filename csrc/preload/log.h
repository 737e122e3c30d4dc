/*
 * A log of a program's calls, for debugging: with FANSTORE_LOG_CALLS=FD each call that takes a path
 * writes a line to that descriptor after it was answered. If it is off, it costs one branch for
 * each call.
 */
#pragma once

#include "../client/paths/resolve.h"

#define FAN_LOG_ENV "FANSTORE_LOG_CALLS"

/* The descriptor of the log; -1: nothing is logged. */
extern int fan_log_fd __attribute__((visibility("hidden")));

/* The constructor calls it with the variable's value, or NULL. Ignores a value that is not the
 * number of an open descriptor: programs often inherit the variable without the descriptor. */
void fan_log_begin(const char *value);

/* Writes one line with one write(2): no lock, no allocation, errno unchanged. answer: the call's
 * result; -1 is a failure with errno. target: the result of resolving `path`. */
void fan_log_write(const char *call, const char *path, const struct fan_target *target,
                   long answer);

/* Logs the call if logging is on. Returns `answer`. */
static inline long fan_logged(const char *call, const char *path, const struct fan_target *target,
                              long answer)
{
    if (__builtin_expect(fan_log_fd >= 0, 0))
        fan_log_write(call, path, target, answer);
    return answer;
}

/* Like fan_logged, for a call that returns a pointer. */
static inline void *fan_logged_pointer(const char *call, const char *path,
                                       const struct fan_target *target, void *answer)
{
    fan_logged(call, path, target, answer != NULL ? 0 : -1);
    return answer;
}
