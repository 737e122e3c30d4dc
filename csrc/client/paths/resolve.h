/*
 * Finds the file that a path means: an input, an output, a name that is missing in a mount, or a
 * file outside. Asks the node daemon only about outputs whose name or content another rank keeps.
 *
 * The walk follows the kernel's rules (path_resolution(7)): components in order, "..", symbolic
 * links of the dataset up to 40, search permission. No function allocates or takes a lock.
 */
#pragma once

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>

#include "../job/ask.h"
#include "../job/mounts.h"

enum fan_where {
    FAN_OUTSIDE, /* give dirfd and path to the real call */
    FAN_INPUT,   /* record `id` of `view` */
    FAN_MISSING, /* in the mount, but missing: `error` */
    FAN_BEYOND,  /* no input, for the daemon to say: id is the deepest input directory, `path` its
                    path and all that is left, unresolved; error, creatable, slash as FAN_MISSING */
    FAN_OUTPUT,  /* an output with `attr`; `path` is its own, or a link's target */
    FAN_TREE, /* an ordinary file in the output tree of `view` (output_tree.h), or to be one: give
                 dirfd and path to the real call */
};

struct fan_target {
    enum fan_where where;
    int error;      /* FAN_MISSING: the errno */
    bool creatable; /* FAN_MISSING: only the last name is missing, in an existing directory */
    bool slash;     /* the path ended with a slash */
    struct fan_view *view;
    struct fan_dataset *dataset;
    const struct fan_record *record;
    uint32_t mode; /* FAN_INPUT: the record's */
    uint64_t id;
    bool there;        /* FAN_TREE: another rank keeps the name, so make nothing */
    int dirfd;         /* FAN_OUTSIDE, FAN_TREE */
    const char *
        path; /* FAN_OUTSIDE, FAN_TREE: the caller's, or `buffer`; outputs: relative to the mount */
    unsigned restarts; /* see fan_locate_again */
    struct fan_output_attr attr;
    char buffer[PATH_MAX];
};

/* Returns whether the caller must make the real call. */
static inline bool fan_target_is_real(const struct fan_target *target)
{
    return target->where == FAN_OUTSIDE || target->where == FAN_TREE;
}

/* Returns the mode of an input or an output. */
static inline uint32_t fan_target_mode(const struct fan_target *target)
{
    return target->where == FAN_OUTPUT ? target->attr.mode : target->mode;
}

/* A target and a path: together they may be too large for a stack (FAN_OFF_STACK). */
struct fan_target_room {
    struct fan_target target;
    char path[PATH_MAX];
};

enum fan_resolve_flags {
    FAN_NOFOLLOW = 1,   /* do not follow a link at the end */
    FAN_EMPTY_PATH = 2, /* "" is dirfd itself (AT_EMPTY_PATH) */
    FAN_DEFER = 4,      /* return FAN_BEYOND instead of asking the daemon */
    FAN_THROUGH = 8,    /* links outside and open directories above a mount are looked through
                           before the real call, not after its ENOENT */
    FAN_CHANGE = 16,    /* FAN_BEYOND for every missing name, even where no output was made */
    FAN_MAKE = 32,      /* with FAN_CHANGE: the call makes a name */
    FAN_NAME = 64,      /* with FAN_NOFOLLOW: the call makes, renames or removes the name itself, so
                           that not even a slash after it makes the kernel follow a link */
};

/* Returns the flags for fan_locate with which a call with AT_SYMLINK_NOFOLLOW or AT_EMPTY_PATH
 * resolves its path. */
static inline unsigned fan_at_resolve(int flags)
{
    return (flags & AT_SYMLINK_NOFOLLOW ? FAN_NOFOLLOW : 0u) |
           (flags & AT_EMPTY_PATH ? FAN_EMPTY_PATH : 0u);
}

/* Returns whether open(2) with these flags would make or change something, or let its caller do
 * so. */
static inline bool fan_open_changes(int flags)
{
    return (flags & O_PATH) == 0 &&
           ((flags & (O_CREAT | O_TRUNC)) != 0 || (flags & O_ACCMODE) != O_RDONLY);
}

/* Returns the flags for fan_locate with which open(2) resolves its path. */
static inline unsigned fan_open_resolve(int flags)
{
    bool exclusive = (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL);
    return ((flags & O_NOFOLLOW) || exclusive ? FAN_NOFOLLOW : 0u) |
           (fan_open_changes(flags) ? FAN_THROUGH | FAN_CHANGE : FAN_DEFER) |
           (flags & O_CREAT ? FAN_MAKE : 0u);
}

/* Resolves a path. Returns true if the path is ours: `target` says what it means. Returns false if
 * the caller must make the real call with target->dirfd and target->path (FAN_OUTSIDE, FAN_TREE). A
 * NULL or bad path is left to the kernel, which refuses it. */
bool fan_locate(int dirfd, const char *path, unsigned flags, struct fan_target *target);

/* Does fan_locate for calls that make or change something: adds FAN_THROUGH, because such calls
 * would succeed in a skeleton, and FAN_CHANGE. The target is never FAN_OUTPUT. */
bool fan_locate_change(int dirfd, const char *path, unsigned flags, struct fan_target *target);

/* Resolves the absolute path at which the daemon said to continue, like fan_locate. A target that
 * is resolved too often becomes FAN_MISSING with ELOOP. `path` may be target->buffer. */
bool fan_locate_again(struct fan_target *target, const char *path, unsigned flags);

/* Call it if fan_locate found a path outside and the real call answered ENOENT, or gave a directory
 * that may be a skeleton's. Returns whether a symbolic link or an open directory outside leads into
 * a mount after all. If it does, fills `target`, with FAN_OUTSIDE if a link in the mount led out
 * again. Does not change errno. */
bool fan_relocate(int dirfd, const char *path, unsigned flags, struct fan_target *target);

/* Writes the absolute path of a target: of an input, or of an output with its links followed (for
 * FAN_BEYOND, the path at which it was found). Returns its length or -errno. */
int64_t fan_target_path(const struct fan_target *target, char *buffer, size_t capacity);

/* Does access(2) of one record. mode: R_OK, W_OK, X_OK combined; effective: use the effective ids
 * instead of the real ones. Outputs can be made in any directory; inputs can never be written.
 * Returns 0, -EACCES, -EROFS. */
int fan_permitted(const struct fan_dataset *dataset, uint64_t id, int mode, bool effective);

/* Does fan_permitted for a resolved target (not FAN_TREE, FAN_BEYOND). Returns -errno also if the
 * target is missing. */
int fan_target_permitted(const struct fan_target *target, int mode, bool effective);

/* Does fan_target_permitted with the effective ids for a directory. Returns -ENOTDIR if the target
 * is no directory. */
int fan_directory_permitted(const struct fan_target *target, int mode);
