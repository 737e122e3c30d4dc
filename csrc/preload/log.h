/*
 * What a program asks for, told to who debugs it: with FANSTORE_LOG_CALLS=FD each call that is
 * given a path writes a line to that descriptor, once it is answered. Off, that is one branch a
 * call.
 */
#ifndef FAN_PRELOAD_LOG_H
#define FAN_PRELOAD_LOG_H

#include "../client/paths/resolve.h"

#define FAN_LOG_ENV "FANSTORE_LOG_CALLS"

/* The descriptor; -1: nothing is logged. */
extern int fan_log_fd __attribute__((visibility("hidden")));

/* Called by the constructor with the variable's value, or NULL. What is no number of an open file is
 * ignored: programs inherit the variable, and often not the descriptor. */
void fan_log_begin(const char *value);

/* Writes one line with one write(2): no lock, no allocation, errno left alone. `answer`: the call's
 * own; -1 is a failure with errno. target: what `path` was taken for. */
void fan_log_write(const char *call, const char *path, const struct fan_target *target,
                   long answer);

/* `answer`, logged where that is wanted. */
static inline long fan_logged(const char *call, const char *path, const struct fan_target *target,
                              long answer)
{
    if (__builtin_expect(fan_log_fd >= 0, 0))
        fan_log_write(call, path, target, answer);
    return answer;
}

/* The same of a call that answers a pointer. */
static inline void *fan_logged_pointer(const char *call, const char *path,
                                       const struct fan_target *target, void *answer)
{
    fan_logged(call, path, target, answer != NULL ? 0 : -1);
    return answer;
}

#endif
