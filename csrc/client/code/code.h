/*
 * Programs and libraries of a mount, made real for the kernel and the dynamic linker, which open
 * files past the preload library: each is a file at `code/<n>/<path in the mount>` of the job
 * directory, n being the mount's number, so that $ORIGIN leads from one to the other as it does in
 * the mount. An input is copied there once for all processes of the node, an output linked. Files
 * appear whole or not at all, and go with the job.
 *
 * `code/<n>` is one more spelling of the mount for every path that a program gives: what looks for
 * files beside its own library or program finds them.
 *
 * Nothing allocates with malloc or locks; safe in a vfork child. All answers are -errno on failure.
 */
#ifndef FAN_CLIENT_CODE_H
#define FAN_CLIENT_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../paths/resolve.h"

/* Where the file at `rest` of a mount is made real: the letters of the path are resolved, links are
 * not. The length; -ENAMETOOLONG; -EXDEV: ".." leads out of the mount. */
int64_t fan_code_place(const struct fan_view *view, const char *rest, char *to, size_t capacity);

/* The same of an absolute path with a mount's prefix. -EXDEV also: it has none. */
int64_t fan_code_place_of(const char *path, char *to, size_t capacity);

/* Room to work in, which stacks may not have. */
struct fan_code_room {
    char own[PATH_MAX];
    char relpath[PATH_MAX];
    char temporary[PATH_MAX];
    char above[PATH_MAX];
};

/* Makes a target real at `place`, or sees that it is there. It may be FAN_BEYOND, and is resolved
 * anew then. 0; as open(2) for reading; -EISDIR; -ENOSPC: it would take more than half of the room
 * that the local disk has left; -EFBIG: RLIMIT_FSIZE; -EXDEV: it is outside, at target->path. */
int fan_code_make(struct fan_target *target, const char *place, struct fan_code_room *room);

/* Makes the directory at `place`, and those above it. */
int fan_code_make_directory(char *place);

/* A copy of `text` that stays for the life of the process, the same one for the same text. NULL:
 * no memory. */
const char *fan_code_keep(const char *text);

/* Replaces each `code/<n>` of the job by the mount's prefix. The length, or -ERANGE and `to` of no
 * use. */
int64_t fan_code_shown(const char *text, char *to, size_t capacity);

#endif
