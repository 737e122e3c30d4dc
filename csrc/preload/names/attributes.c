/* Calls that change attributes: mode, owner, times, size, extended ones. The node daemon answers
 * for outputs. A change of an input fails, as on a read-only file system. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "../../client/outputs/change.h"
#include "../../client/paths/linked.h"
#include "../files/of_file.h"
#include "../log.h"
#include "../real.h"

enum { AT_FLAGS = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH };

/* Returns whether a real descriptor is of an original file of the dataset: inherited, or opened
 * through a link outside. */
static bool is_original(int fd)
{
    char path[PATH_MAX];
    const char *rest;
    bool over = false;
    for (unsigned i = 0; i < fan_job.view_count; i++)
        over = over || !fan_job.views[i].prefix_made;
    if (!over || fan_fd_path(fd, path, sizeof(path)) <= 0)
        return false;
    const struct fan_view *view = fan_match_prefix(path, &rest);
    return view != NULL && !view->prefix_made;
}

/* Returns whether nothing may be changed through a descriptor: of an input, of the original of one,
 * or of a copy of another rank's file, which others of this node read, too. */
static bool is_fixed(int fd)
{
    const struct fan_file *file = fan_file_get(fd);
    return file != NULL ? file->record != NULL || fan_is_copied(file) : is_original(fd);
}

/* Makes a change through a descriptor. Returns true if `*rc` is the result, false if the kernel
 * must make it. */
static bool changed_fd(int fd, struct fan_output_call *call, int *rc)
{
    bool fixed = is_fixed(fd);
    if (!fixed && !fan_output_is_directory(fd))
        return false;
    *rc = fan_file_is_path(fd, fan_file_get(fd)) ? -EBADF : -EROFS;
    return fixed || *rc == -EBADF || fan_output_change_directory(fd, call, rc);
}

/* Makes a change of the descriptor itself (AT_EMPTY_PATH), or with AT_FDCWD of the working
 * directory. */
static bool changed_empty(int dirfd, const char *path, unsigned flags,
                          struct fan_output_call *call, struct fan_target *target, int *rc)
{
    if (dirfd == AT_FDCWD)
        return fan_output_change(dirfd, ".", flags, call, target, rc);
    target->where = FAN_OUTSIDE;
    target->dirfd = dirfd;
    target->path = path;
    *rc = -EROFS;
    return is_fixed(dirfd) ||
           (fan_output_is_directory(dirfd) && fan_output_change_directory(dirfd, call, rc));
}

/* Makes a change of an existing file. Returns true if `*rc` is the result, false if the caller must
 * make the real call with the target. */
static bool changed(int dirfd, const char *path, int flags, struct fan_output_call *call,
                    struct fan_target *target, int *rc)
{
    bool empty = (flags & AT_EMPTY_PATH) && fan_given(path) && path[0] == '\0';
    call->request.flags = (uint32_t)flags;
    bool ours = empty ? changed_empty(dirfd, path, fan_at_resolve(flags), call, target, rc)
                      : fan_output_change(dirfd, path, fan_at_resolve(flags), call, target, rc);
    if (ours && (flags & ~AT_FLAGS))
        *rc = -EINVAL;
    return ours;
}

/* Returns the kernel's result of a change of `fd` itself; if it is an output, tells the daemon. */
static int changed_really(int fd, int rc)
{
    if (rc == 0)
        fan_output_refresh(fd);
    return rc;
}

FAN_EXPORT int truncate(const char *path, off_t bytes)
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_TRUNCATE, .size = bytes}};
    struct fan_target target;
    int rc;
    if (bytes < 0)
        return REAL(truncate)(path, bytes); /* the kernel returns EINVAL for any path */
    bool ours = fan_output_change(AT_FDCWD, path, 0, &call, &target, &rc);
    bool directory = target.where == FAN_INPUT && S_ISDIR(target.record->mode);
    rc = ours ? (int)fan_answer(directory ? -EISDIR : rc) : REAL(truncate)(target.path, bytes);
    return (int)fan_logged("truncate", path, &target, rc);
}

static struct fan_output_call mode_call(mode_t mode)
{
    return (struct fan_output_call){
        .request = {.op = FAN_OUTPUT_CHANGE, .change = FAN_OUTPUT_MODE, .mode = mode & 07777}};
}

FAN_EXPORT int fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    struct fan_output_call call = mode_call(mode);
    struct fan_target target;
    int rc;
    rc = changed(dirfd, path, flags, &call, &target, &rc)
             ? (int)fan_answer(rc)
             : changed_really(dirfd, REAL(fchmodat)(target.dirfd, target.path, mode, flags));
    return (int)fan_logged("chmod", path, &target, rc);
}

FAN_EXPORT int fchmod(int fd, mode_t mode)
{
    struct fan_output_call call = mode_call(mode);
    int rc;
    return changed_fd(fd, &call, &rc) ? (int)fan_answer(rc)
                                      : changed_really(fd, REAL(fchmod)(fd, mode));
}

static struct fan_output_call owner_call(uid_t uid, gid_t gid)
{
    unsigned change = (uid != (uid_t)-1 ? FAN_OUTPUT_UID : 0u) |
                      (gid != (gid_t)-1 ? FAN_OUTPUT_GID : 0u);
    return (struct fan_output_call){
        .request = {.op = FAN_OUTPUT_CHANGE, .change = change, .uid = uid, .gid = gid}};
}

FAN_EXPORT int fchownat(int dirfd, const char *path, uid_t uid, gid_t gid, int flags)
{
    struct fan_output_call call = owner_call(uid, gid);
    struct fan_target target;
    int rc;
    rc = changed(dirfd, path, flags, &call, &target, &rc)
             ? (int)fan_answer(rc)
             : changed_really(dirfd, REAL(fchownat)(target.dirfd, target.path, uid, gid, flags));
    return (int)fan_logged("chown", path, &target, rc);
}

FAN_EXPORT int fchown(int fd, uid_t uid, gid_t gid)
{
    struct fan_output_call call = owner_call(uid, gid);
    int rc;
    return changed_fd(fd, &call, &rc) ? (int)fan_answer(rc)
                                      : changed_really(fd, REAL(fchown)(fd, uid, gid));
}

FAN_EXPORT int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
    struct fan_output_call call = {.request.op = FAN_OUTPUT_CHANGE};
    struct fan_target target;
    int rc, bad = fan_output_set_times(&call, times);
    if (bad || call.request.change == 0) /* the kernel answers before it looks at the path */
        return REAL(utimensat)(dirfd, path, times, flags);
    rc = changed(dirfd, path, flags, &call, &target, &rc)
             ? (int)fan_answer(rc)
             : changed_really(dirfd, REAL(utimensat)(target.dirfd, target.path, times, flags));
    return (int)fan_logged("utimens", path, &target, rc);
}

FAN_EXPORT int futimens(int fd, const struct timespec times[2])
{
    struct fan_output_call call = {.request.op = FAN_OUTPUT_CHANGE};
    int rc, bad = fan_output_set_times(&call, times);
    if (bad || call.request.change == 0)
        return REAL(futimens)(fd, times);
    return changed_fd(fd, &call, &rc) ? (int)fan_answer(rc)
                                      : changed_really(fd, REAL(futimens)(fd, times));
}

/* Converts microseconds to nanoseconds. Returns false and sets errno if a time is not valid. */
static bool in_nanoseconds(const struct timeval times[2], struct timespec fine[2])
{
    for (unsigned i = 0; times != NULL && i < 2; i++) {
        if (times[i].tv_usec < 0 || times[i].tv_usec >= 1000000) {
            errno = EINVAL;
            return false;
        }
        fine[i] = (struct timespec){times[i].tv_sec, times[i].tv_usec * 1000};
    }
    return true;
}

/* The older calls do what the newest one does, except for a NULL path. */
static int set_times(int dirfd, const char *path, const struct timeval times[2], int flags)
{
    struct timespec fine[2];
    if (!in_nanoseconds(times, fine))
        return -1;
    return fan_given(path) ? utimensat(dirfd, path, times != NULL ? fine : NULL, flags)
                           : (int)fan_answer(-EFAULT);
}

FAN_EXPORT int futimes(int fd, const struct timeval times[2])
{
    struct timespec fine[2];
    return in_nanoseconds(times, fine) ? futimens(fd, times != NULL ? fine : NULL) : -1;
}

FAN_EXPORT int futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    return fan_given(path) ? set_times(dirfd, path, times, 0) : futimes(dirfd, times);
}

FAN_EXPORT int utimes(const char *path, const struct timeval times[2])
{
    return set_times(AT_FDCWD, path, times, 0);
}

FAN_EXPORT int lutimes(const char *path, const struct timeval times[2])
{
    return set_times(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

FAN_EXPORT int utime(const char *path, const struct utimbuf *times)
{
    struct timeval both[2];
    if (times != NULL) {
        both[0] = (struct timeval){times->actime, 0};
        both[1] = (struct timeval){times->modtime, 0};
    }
    return set_times(AT_FDCWD, path, times != NULL ? both : NULL, 0);
}

/* Returns whether the path is in a mount: outputs have no extended attributes, however the path
 * leads to them, as on a file system without them. */
static bool attributed(const char *path, unsigned flags, struct fan_target *target, int *rc)
{
    struct fan_output_call call = {.request.op = FAN_OUTPUT_LOOKUP};
    if (!fan_output_change(AT_FDCWD, path, flags, &call, target, rc))
        return false;
    if (*rc == 0)
        *rc = -EOPNOTSUPP;
    return true;
}

/* The body of a call that changes an attribute of a path. */
#define ATTRIBUTED(follow, real)                                                                   \
    struct fan_target target;                                                                      \
    int rc;                                                                                        \
    rc = attributed(path, follow, &target, &rc) ? (int)fan_answer(rc) : real;                      \
    return (int)fan_logged(__func__, path, &target, rc)

FAN_EXPORT int setxattr(const char *path, const char *name, const void *value, size_t bytes,
                        int flags)
{
    ATTRIBUTED(0, REAL(setxattr)(target.path, name, value, bytes, flags));
}

FAN_EXPORT int lsetxattr(const char *path, const char *name, const void *value, size_t bytes,
                         int flags)
{
    ATTRIBUTED(FAN_NOFOLLOW, REAL(lsetxattr)(target.path, name, value, bytes, flags));
}

FAN_EXPORT int removexattr(const char *path, const char *name)
{
    ATTRIBUTED(0, REAL(removexattr)(target.path, name));
}

FAN_EXPORT int lremovexattr(const char *path, const char *name)
{
    ATTRIBUTED(FAN_NOFOLLOW, REAL(lremovexattr)(target.path, name));
}

static bool attributed_fd(int fd, int *rc)
{
    const struct fan_file *file = fan_file_get(fd);
    bool others = file != NULL && file->kind == FAN_FILE_OUTDIR;
    if (!others && !is_fixed(fd))
        return false;
    *rc = fan_file_is_path(fd, fan_file_get(fd)) ? -EBADF : others ? -EOPNOTSUPP : -EROFS;
    return true;
}

FAN_EXPORT int fsetxattr(int fd, const char *name, const void *value, size_t bytes, int flags)
{
    int rc;
    return attributed_fd(fd, &rc) ? (int)fan_answer(rc)
                                  : REAL(fsetxattr)(fd, name, value, bytes, flags);
}

FAN_EXPORT int fremovexattr(int fd, const char *name)
{
    int rc;
    return attributed_fd(fd, &rc) ? (int)fan_answer(rc) : REAL(fremovexattr)(fd, name);
}
