/*
 * Makes programs and libraries of a mount real files for the kernel and the dynamic linker, which
 * open files without the preload library. Each is at `code/<n>/<path in the mount>` in the job
 * directory, where n is the mount's number, so that $ORIGIN leads from one to the other as in the
 * mount. An input is copied there once for all processes of the node; an output is linked. Files
 * appear only when they are complete, and are removed with the job.
 *
 * A program may also use `code/<n>` as a spelling of the mount in any path: code that looks for
 * files beside its own library or program finds them.
 *
 * No function calls malloc or takes a lock, so all are safe in a vfork child. They return -errno on
 * failure.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "../paths/resolve.h"

/* Writes the path at which the file at `rest` of a mount is made real. Resolves "." and ".." but no
 * links. Returns the length; -ENAMETOOLONG; -EXDEV: ".." leads out of the mount. */
int64_t fan_code_place(const struct fan_view *view, const char *rest, char *to, size_t capacity);

/* Like fan_code_place, for an absolute path with a mount's prefix. Returns -EXDEV also if it has no
 * such prefix. */
int64_t fan_code_place_of(const char *path, char *to, size_t capacity);

/* Buffers for these functions, because a small stack may have no room for them. */
struct fan_code_room {
    char own[PATH_MAX];
    char relpath[PATH_MAX];
    char temporary[PATH_MAX];
    char above[PATH_MAX];
};

/* Makes a target real at `place`, unless it is there already. A FAN_BEYOND target is resolved
 * again. Returns 0; the errors of open(2) for reading; -EISDIR; -ENOSPC: the file would take more
 * than half of the free space on the local disk; -EFBIG: RLIMIT_FSIZE; -EXDEV: the target is
 * outside, at target->path. */
int fan_code_make(struct fan_target *target, const char *place, struct fan_code_room *room);

/* Creates the directory at `place` and its missing parents. */
int fan_code_make_directory(char *place);

/* Returns a copy of `text` that is never freed; equal texts get the same copy. NULL: no memory. */
const char *fan_code_keep(const char *text);

/* Copies `text` and replaces each `code/<n>` of the job by the mount's prefix. Returns the length,
 * or -ERANGE, and then `to` holds nothing useful. */
int64_t fan_code_shown(const char *text, char *to, size_t capacity);
