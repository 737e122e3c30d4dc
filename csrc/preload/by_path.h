/* Answers most calls that take a path. */
#pragma once

#include "../client/paths/resolve.h"
#include "log.h"
#include "real.h"

/* The body of a call that takes a path. Resolves `path` into `target`, and answers with `ours` for
 * a path of a mount, with `real` for any other. If `real` finds nothing (ENOENT) because a link
 * outside leads into a mount, `ours` answers, or `real` again if a link in the mount leads out.
 * Both expressions use `target`. */
#define FAN_BY_PATH(dirfd, path, how, ours, real)                                                  \
    struct fan_target target;                                                                      \
    bool found = fan_locate(dirfd, path, how, &target);                                            \
    long got = found ? ours : real;                                                                \
    if (!found && got < 0 && errno == ENOENT && fan_relocate(dirfd, path, how, &target))           \
        got = fan_target_is_real(&target) ? real : ours;                                           \
    return (__typeof__(ours))fan_logged(__func__, path, &target, got)
