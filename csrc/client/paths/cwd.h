/*
 * Tracks the working directory in relation to the mounts. The answer is cached until a call changes
 * the directory; a vfork child asks the kernel each time.
 */
#pragma once

#include <stddef.h>

#include "../job/job.h"

enum fan_cwd_kind {
    FAN_CWD_UNKNOWN = 0,
    FAN_CWD_FAR,    /* a relative path without ".." cannot lead into a mount */
    FAN_CWD_NEAR,   /* above a mount: the first `value` bytes of its prefix */
    FAN_CWD_INSIDE, /* record `value` of a mount */
    FAN_CWD_OUTPUT, /* in a mount, but not in a directory of its inputs */
};

struct fan_cwd {
    enum fan_cwd_kind kind;
    struct fan_view *view;
    uint64_t value;
};

struct fan_cwd fan_cwd_get(void);

/* Call it after chdir or fchdir. */
void fan_cwd_changed(void);

/* Does getcwd(2), but shows a skeleton's path as the mount's. Returns the length without NUL, or
 * -errno. */
long fan_cwd_path(char *buffer, size_t capacity);

/* Rewrites, in place, a path inside a skeleton, or of a program or library made real (code.h), to
 * the path in the mount. Returns the new length, or -ERANGE if it does not fit. */
long fan_unskeleton(char *path, size_t length, size_t capacity);
