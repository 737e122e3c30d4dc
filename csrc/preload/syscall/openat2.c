/*
 * openat2(2) in a mount. Follows the path name by name under the call's rules, with the intercepted
 * calls; the kernel follows paths outside.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>

#include "../../client/machine/copy.h"
#include "../../client/machine/spelling.h"
#include "../../client/paths/walk.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../real.h"
#include "../undeclared.h"

#ifndef RESOLVE_CACHED /* since Linux 5.12 */
#    define RESOLVE_CACHED 0x20
#endif

enum { SCOPED = RESOLVE_BENEATH | RESOLVE_IN_ROOT };

/* A path that is being followed: the part already followed, without links and, under SCOPED rules,
 * without ".."; and the rest. */
struct way {
    int dirfd;
    uint64_t rules;
    bool follow;
    dev_t device;
    unsigned links;
    char done[PATH_MAX];
    char rest[PATH_MAX];
};

/* Puts the target of the link at `done`, whose name begins at `before`, in front of `rest`. Returns
 * 1 if the target is absolute, so that `rest` continues from the root. */
static int take_link(struct way *way, size_t before)
{
    char target[PATH_MAX];
    ssize_t bytes = readlinkat(way->dirfd, way->done, target, sizeof(target) - 1);
    if (bytes <= 0)
        return bytes < 0 ? -errno : -ENOENT;
    bool absolute = target[0] == '/', leaves = absolute && !(way->rules & SCOPED);
    if ((way->rules & RESOLVE_NO_SYMLINKS) || ++way->links > FAN_LINKS_MAX)
        return -ELOOP;
    if ((absolute && (way->rules & RESOLVE_BENEATH)) || (leaves && (way->rules & RESOLVE_NO_XDEV)))
        return -EXDEV;
    target[bytes] = '\0';
    way->done[absolute ? 0 : before] = '\0';
    if (!fan_join(way->rest, sizeof(way->rest), target, (size_t)bytes, way->rest))
        return -ENAMETOOLONG;
    return leaves;
}

/* Handles the name from `before` to the end of `done`: follows a link, enters a directory. */
static int arrive(struct way *way, size_t before)
{
    struct stat st;
    bool last = way->rest[0] == '\0';
    if (fstatat(way->dirfd, way->done, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT && last ? 0 : -errno; /* the call may create it */
    if ((way->rules & RESOLVE_NO_XDEV) && st.st_dev != way->device)
        return -EXDEV;
    if (S_ISLNK(st.st_mode))
        return last && !way->follow ? 0 : take_link(way, before);
    return last || S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

static int go_up(struct way *way)
{
    if (way->done[0] == '\0')
        return way->rules & RESOLVE_BENEATH ? -EXDEV : 0;
    char *slash = strrchr(way->done, '/');
    *(slash != NULL ? slash : way->done) = '\0';
    return 0;
}

/* Appends the first name of the rest to `done`. Returns its length, or -ENAMETOOLONG. */
static int take_name(struct way *way)
{
    char *name = way->rest + strspn(way->rest, "/"), *end = name + strcspn(name, "/"), first = *end;
    size_t bytes = (size_t)(end - name), length = strlen(way->done);
    bool root = length == 1 && way->done[0] == '/';
    *end = '\0';
    bool fits = bytes <= NAME_MAX;
    if (fits && length == 0)
        memcpy(way->done, name, bytes + 1);
    else if (fits && bytes > 0)
        fits = fan_join(way->done, sizeof(way->done), way->done, root ? 0 : length, name);
    *end = first;
    memmove(way->rest, end, strlen(end) + 1);
    return fits ? (int)bytes : -ENAMETOOLONG;
}

/* Follows the first name of the rest. */
static int pass(struct way *way)
{
    size_t before = strlen(way->done);
    int bytes = take_name(way);
    if (bytes <= 0)
        return bytes;
    const char *name = way->done + strlen(way->done) - bytes;
    bool up = fan_is_dot_dot(name, (size_t)bytes) && (way->rules & SCOPED);
    if (!up && !fan_is_dot(name, (size_t)bytes))
        return arrive(way, before);
    way->done[before] = '\0';
    return up ? go_up(way) : 0;
}

/* Returns whether a path is in a mount, leads through one, or must stay below a directory in
 * one. */
static bool is_ours(int dirfd, const char *path, const struct open_how *how)
{
    struct fan_target target;
    if (how->resolve != 0 && (strncmp(path, "/proc/", 6) == 0 || fan_proc_fd(path) >= 0))
        return false; /* only the kernel knows whether links there are magic */
    if ((how->resolve & SCOPED) && (fan_locate(dirfd, ".", 0, &target) || target.where == FAN_TREE))
        return true;
    if (how->resolve & RESOLVE_IN_ROOT)
        path += strspn(path, "/");
    return fan_locate(dirfd, path, fan_open_resolve((int)how->flags), &target) ||
           target.where == FAN_TREE || (how->resolve != 0 && target.path != path);
}

/* Follows the path in `rest`. Returns what take_link returns. */
static int follow(struct way *way)
{
    struct stat st;
    bool absolute = way->rest[0] == '/' && !(way->rules & SCOPED);
    strcpy(way->done, absolute ? "/" : "");
    int rc = fstatat(way->dirfd, absolute ? "/" : ".", &st, 0) == 0 ? 0 : -errno;
    way->device = st.st_dev;
    while (rc == 0 && way->rest[0] != '\0')
        rc = pass(way);
    return rc;
}

/* Opens a path of a mount under the rules. Returns -1 and sets errno on failure. */
static int open_by_rules(int dirfd, const char *path, const struct open_how *how)
{
    FAN_OFF_STACK(struct way, way);
    int rc = way == NULL ? -ENOMEM : path[0] == '\0' ? -ENOENT : 0;
    if (strlen(path) >= sizeof(way->rest))
        rc = -ENAMETOOLONG;
    if (path[0] == '/' && (how->resolve & RESOLVE_BENEATH))
        rc = -EXDEV;
    if (how->resolve & RESOLVE_CACHED) /* nothing is known to be in the kernel's cache */
        rc = -EAGAIN;
    if (rc < 0)
        return (int)fan_answer(rc);
    *way = (struct way){.dirfd = dirfd, .rules = how->resolve};
    way->follow = !(fan_open_resolve((int)how->flags) & FAN_NOFOLLOW);
    strcpy(way->rest, path);
    while ((rc = follow(way)) == 1) {
        if (!is_ours(AT_FDCWD, way->rest, how))
            return (int)fan_answer(FAN_SYS(openat2, AT_FDCWD, way->rest, how, sizeof(*how)));
    }
    return rc < 0 ? (int)fan_answer(rc)
                  : openat(way->dirfd, way->done[0] != '\0' ? way->done : ".",
                           (int)how->flags | O_NOFOLLOW, (mode_t)how->mode);
}

/* Declared by glibc since 2.43. */
FAN_EXPORT int openat2(int dirfd, const char *path, const struct open_how *given, size_t bytes)
{
    struct open_how how;
    bool look = fan_job.view_count > 0 && fan_given(path);
    /* Opening an empty path returns ENOENT: any other errno is about the rules themselves. */
    long rc = look ? FAN_SYS(openat2, AT_FDCWD, "", given, bytes) : 0;
    if (look && rc == -ENOENT)
        rc = fan_copy(&how, given, sizeof(how));
    if (rc != 0)
        return (int)fan_answer(rc);
    if (!look || !is_ours(dirfd, path, &how))
        return (int)fan_answer(FAN_SYS(openat2, dirfd, path, given, bytes));
    return how.resolve == 0 ? openat(dirfd, path, (int)how.flags, (mode_t)how.mode)
                            : open_by_rules(dirfd, path, &how);
}
