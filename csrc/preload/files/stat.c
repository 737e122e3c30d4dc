/* Calls for the attributes of a path or descriptor: stat with all its variants, access, links. */
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <unistd.h>

#include "../../client/machine/copy.h"
#include "../../client/paths/cwd.h"
#include "../../client/paths/output_tree.h"
#include "../../client/paths/linked.h"
#include "../../client/open/open.h"
#include "../../client/handoff/handoff.h"
#include "../../client/open/stat.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../by_path.h"
#include "of_file.h"
#include "../log.h"
#include "../real.h"

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one struct stat on 64 bits");

enum {
    STAT_FLAGS = AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH | AT_NO_AUTOMOUNT,
    STATX_FLAGS = STAT_FLAGS | AT_STATX_SYNC_TYPE,
    ACCESS_FLAGS = AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH,
};

/* Returns the file that AT_EMPTY_PATH names if the kernel's answer alone is not enough, or NULL. */
static struct fan_file *output_at(int dirfd, const char *path, int flags)
{
    if (!(flags & AT_EMPTY_PATH) || (fan_given(path) && path[0] != '\0'))
        return NULL;
    struct fan_file *file = fan_file_get(dirfd);
    return file != NULL && file->kind == FAN_FILE_OUTPUT ? file : NULL;
}

/* Calls fstatat: glibc before 2.33 has no `stat` to call. */
static int real_stat(int dirfd, const char *path, struct stat *st, int flags)
{
    __typeof__(&fstatat) call = REAL(fstatat);
    if (call != NULL)
        return call(dirfd, path, st, flags);
    return (int)fan_answer(FAN_SYS(newfstatat, dirfd, path, st, flags));
}

/* Calls stat for a target that is outside, or in the output tree. */
static int stat_real(const struct fan_target *target, struct stat *st, int flags)
{
    int rc = real_stat(target->dirfd, target->path, st, flags);
    if (rc == 0 && target->where == FAN_TREE)
        fan_tree_show(target->view, st);
    return rc;
}

/* Copies the result at the end: the caller's buffer may be a bad address, for which the kernel
 * returns EFAULT. */
static int stat_ours(const struct fan_target *target, struct stat *st)
{
    struct stat own;
    int rc = fan_stat(target, &own);
    return (int)fan_answer(rc == 0 ? fan_copy(st, &own, sizeof(own)) : rc);
}

/* Returns whether attributes may be those of a directory of the skeleton, which a link outside can
 * lead to and which stands for one of the dataset. */
static bool may_be_skeleton(mode_t mode, uid_t uid)
{
    return fan_job.view_count > 0 && S_ISDIR(mode) && (mode & 07777) == 0700 &&
           uid == (uid_t)FAN_SYS(geteuid);
}

static int stat_target(int dirfd, const char *path, struct stat *st, int flags,
                       struct fan_target *target)
{
    if (fan_locate(dirfd, path, fan_at_resolve(flags), target))
        return flags & ~STAT_FLAGS ? (int)fan_answer(-EINVAL) : stat_ours(target, st);
    if (output_at(dirfd, path, flags) != NULL)
        return fstat(dirfd, st);
    int rc = stat_real(target, st, flags);
    bool look = rc < 0 ? errno == ENOENT : may_be_skeleton(st->st_mode, st->st_uid);
    if (!look || !fan_relocate(dirfd, path, fan_at_resolve(flags), target))
        return rc;
    return fan_target_is_real(target) ? stat_real(target, st, flags) : stat_ours(target, st);
}

static int stat_at(int dirfd, const char *path, struct stat *st, int flags)
{
    struct fan_target target;
    int rc = stat_target(dirfd, path, st, flags, &target);
    return (int)fan_logged(flags & AT_SYMLINK_NOFOLLOW ? "lstat" : "stat", path, &target, rc);
}

FAN_EXPORT int stat(const char *path, struct stat *st)
{
    return stat_at(AT_FDCWD, path, st, 0);
}

FAN_EXPORT int lstat(const char *path, struct stat *st)
{
    return stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

FAN_EXPORT int fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
    return stat_at(dirfd, path, st, flags);
}

FAN_EXPORT int fstat(int fd, struct stat *st)
{
    struct fan_file *file = fan_file_get(fd);
    struct stat own;
    if (file != NULL && file->kind != FAN_FILE_NEAR) {
        int rc = fan_stat_file(fd, file, &own);
        return (int)fan_answer(rc == 0 ? fan_copy(st, &own, sizeof(own)) : rc);
    }
    long rc = FAN_SYS(fstat, fd, st);
    if (rc == 0 &&
        (fan_received_late(fd, st) || (may_be_skeleton(st->st_mode, st->st_uid) &&
                                       fan_open_noticed(fd, fan_sys_fcntl(fd, F_GETFL, 0)))))
        return fstat(fd, st);
    return (int)fan_answer(rc);
}

/* Converts `st` to a statx. rc: the result of filling `st`. */
static int give_statx(int rc, const struct stat *st, struct statx *stx)
{
    struct statx own;
    if (rc == 0) {
        fan_stat_to_statx(st, &own);
        rc = fan_copy(stx, &own, sizeof(own));
    }
    return (int)fan_answer(rc);
}

static int statx_ours(const struct fan_target *target, struct statx *stx)
{
    struct stat st;
    return give_statx(fan_stat(target, &st), &st, stx);
}

static int statx_output(int fd, const struct fan_file *file, struct statx *stx)
{
    struct stat st;
    return give_statx(fan_stat_file(fd, file, &st), &st, stx);
}

/* Calls statx(2) for a target that is outside, or in the output tree. */
static int statx_real(const struct fan_target *target, int flags, unsigned mask, struct statx *stx)
{
    int rc = REAL(statx)(target->dirfd, target->path, flags, mask, stx);
    if (rc == 0 && target->where == FAN_TREE)
        fan_tree_show_statx(target->view, stx);
    return rc;
}

static int statx_target(int dirfd, const char *path, int flags, unsigned mask, struct statx *stx,
                        struct fan_target *target)
{
    const char *name = !fan_given(path) && (flags & AT_EMPTY_PATH) ? "" : path;
    if (fan_locate(dirfd, name, fan_at_resolve(flags), target)) {
        bool odd = flags & ~STATX_FLAGS || mask & STATX__RESERVED ||
                   (flags & AT_STATX_SYNC_TYPE) == AT_STATX_SYNC_TYPE;
        return odd ? (int)fan_answer(-EINVAL) : statx_ours(target, stx);
    }
    const struct fan_file *file = output_at(dirfd, path, flags);
    if (file != NULL)
        return statx_output(dirfd, file, stx);
    if (name != path)
        target->path = path;
    int rc = statx_real(target, flags, mask, stx);
    bool look = rc < 0 ? errno == ENOENT : may_be_skeleton(stx->stx_mode, stx->stx_uid);
    if (!look || !fan_relocate(dirfd, name, fan_at_resolve(flags), target))
        return rc;
    return fan_target_is_real(target) ? statx_real(target, flags, mask, stx)
                                      : statx_ours(target, stx);
}

FAN_EXPORT int statx(int dirfd, const char *path, int flags, unsigned mask, struct statx *stx)
{
    struct fan_target target;
    int rc = statx_target(dirfd, path, flags, mask, stx, &target);
    return (int)fan_logged("statx", path, &target, rc);
}

static int access_ours(const struct fan_target *target, int mode, int flags)
{
    if (mode & ~(R_OK | W_OK | X_OK) || flags & ~ACCESS_FLAGS)
        return (int)fan_answer(-EINVAL);
    return (int)fan_answer(fan_target_permitted(target, mode, (flags & AT_EACCESS) != 0));
}

/* Returns flags for access(2): the mount decides whether an original may be written, however the
 * path leads there. */
static unsigned access_flags(int mode, int flags)
{
    return fan_at_resolve(flags) | (mode & W_OK ? FAN_THROUGH : 0u);
}

FAN_EXPORT int faccessat(int dirfd, const char *path, int mode, int flags)
{
    FAN_BY_PATH(dirfd, path, access_flags(mode, flags), access_ours(&target, mode, flags),
                REAL(faccessat)(target.dirfd, target.path, mode, flags));
}

FAN_EXPORT int access(const char *path, int mode)
{
    FAN_BY_PATH(AT_FDCWD, path, access_flags(mode, 0), access_ours(&target, mode, 0),
                REAL(access)(target.path, mode));
}

/* A directory above one of the output tree may be one of the dataset. */
ino_t fan_shown_inode(int directory, const char *name, ino_t inode)
{
    struct stat st;
    int error = errno;
    if (strcmp(name, "..") != 0 || fstatat(directory, "..", &st, 0) != 0)
        st.st_ino = fan_tree_inode(inode);
    errno = error;
    return st.st_ino;
}

/* Copies a text without its NUL, as much of it as fits. */
static ssize_t give_text(const char *text, size_t length, char *buffer, size_t bytes)
{
    size_t take = length < bytes ? length : bytes;
    int rc = fan_copy(buffer, text, take);
    return fan_answer(rc < 0 ? rc : (long)take);
}

/* "/proc/self/fd/N" of a virtual descriptor is a link to a placeholder: show the file's path
 * instead. */
static ssize_t readlink_proc(const char *path, char *buffer, size_t bytes)
{
    if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/dev/fd/", 8) != 0)
        return -1;
    FAN_OFF_STACK(struct fan_target_room, room);
    if (room == NULL || !fan_locate(AT_FDCWD, path, 0, &room->target) ||
        room->target.where == FAN_MISSING)
        return -1;
    int64_t length = fan_target_path(&room->target, room->path, sizeof(room->path));
    return length < 0 ? fan_answer(length) : give_text(room->path, (size_t)length, buffer, bytes);
}

/* Shows the mount's path where /proc names an output, or a program that was made real
 * ("/proc/self/exe"). */
static ssize_t readlink_shown(int dirfd, const char *path, char *buffer, size_t bytes)
{
    const char *rest;
    if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/dev/fd/", 8) != 0)
        return -1;
    FAN_OFF_STACK(struct fan_target_room, room);
    if (room == NULL)
        return -1;
    char *full = room->path;
    long length = fan_sys_readlink(dirfd, path, full, sizeof(room->path));
    if (length <= 0 || fan_job_match(full, &rest) == NULL)
        return -1;
    length = fan_unskeleton(full, (size_t)length, sizeof(room->path));
    return length > 0 ? give_text(full, (size_t)length, buffer, bytes) : -1;
}

static ssize_t readlink_ours(const struct fan_target *target, const char *path, char *buffer,
                             size_t bytes)
{
    const char *to;
    size_t length;
    if (target->where == FAN_MISSING)
        return fan_answer(-target->error);
    if ((ssize_t)bytes <= 0)
        return fan_answer(-EINVAL);
    if (target->where == FAN_OUTPUT && S_ISLNK(target->attr.mode))
        return give_text(target->path, strlen(target->path), buffer, bytes);
    if (target->where == FAN_OUTPUT || !S_ISLNK(target->mode))
        return fan_answer(path[0] == '\0' ? -ENOENT : -EINVAL);
    if (fan_index_target(&target->dataset->index, target->record, &to, &length) != 0)
        return fan_answer(fan_count_error(-EIO));
    return give_text(to, length, buffer, bytes);
}

/* Reads a link of the output tree, which is stored behind FAN_TREE_LINK. */
static ssize_t readlink_tree(const struct fan_target *target, char *buffer, size_t bytes)
{
    FAN_OFF_STACK(struct fan_path, path);
    if (path == NULL)
        return fan_answer(-ENOMEM);
    ssize_t got = REAL(readlinkat)(target->dirfd, target->path, path->text, sizeof(path->text) - 1);
    if (got < 0 || bytes == 0)
        return got < 0 ? got : fan_answer(-EINVAL);
    path->text[got] = '\0';
    bool stored = strncmp(path->text, FAN_TREE_LINK, FAN_TREE_LINK_BYTES) == 0;
    size_t skip = stored ? FAN_TREE_LINK_BYTES : 0;
    return give_text(path->text + skip, (size_t)got - skip, buffer, bytes);
}

static ssize_t readlink_real(const struct fan_target *target, char *buffer, size_t bytes)
{
    return target->where == FAN_TREE ? readlink_tree(target, buffer, bytes)
                                     : REAL(readlinkat)(target->dirfd, target->path, buffer, bytes);
}

static ssize_t readlink_target(int dirfd, const char *path, char *buffer, size_t bytes,
                               struct fan_target *target)
{
    if (fan_locate(dirfd, path, FAN_NOFOLLOW | FAN_EMPTY_PATH, target))
        return readlink_ours(target, path, buffer, bytes);
    if (fan_job.view_count > 0 && target->where != FAN_TREE && (uintptr_t)path >= 4096 &&
        path[0] == '/') {
        ssize_t shown = readlink_proc(path, buffer, bytes);
        if (shown < 0)
            shown = readlink_shown(dirfd, path, buffer, bytes);
        if (shown >= 0)
            return shown;
    }
    ssize_t got = readlink_real(target, buffer, bytes);
    if (got >= 0 || errno != ENOENT || !fan_relocate(dirfd, path, FAN_NOFOLLOW, target))
        return got;
    return fan_target_is_real(target) ? readlink_real(target, buffer, bytes)
                                      : readlink_ours(target, path, buffer, bytes);
}

FAN_EXPORT ssize_t readlinkat(int dirfd, const char *path, char *buffer, size_t bytes)
{
    struct fan_target target;
    ssize_t got = readlink_target(dirfd, path, buffer, bytes, &target);
    return fan_logged("readlink", path, &target, got);
}

static char *give_path(const char *path, size_t length, char *resolved)
{
    char *to = resolved != NULL ? resolved : malloc(length + 1);
    if (to != NULL)
        memcpy(to, path, length + 1);
    return to;
}

static char *realpath_ours(struct fan_target_room *room, char *resolved)
{
    int64_t length = fan_target_path(&room->target, room->path, sizeof(room->path));
    if (length < 0) {
        errno = (int)-length;
        return NULL;
    }
    return give_path(room->path, (size_t)length, resolved);
}

/* Returns the mount's path of a file in the output tree, from the kernel's path of it. */
static char *realpath_tree(struct fan_target_room *room, char *resolved)
{
    const struct fan_target *target = &room->target;
    int fd = fan_sys_openat(target->dirfd, target->path, O_PATH | O_CLOEXEC, 0);
    long length = fd < 0 ? fd : fan_fd_path(fd, room->path, sizeof(room->path));
    if (fd >= 0)
        fan_sys_close(fd);
    if (length < 0) {
        errno = (int)-length;
        return NULL;
    }
    return give_path(room->path, (size_t)length, resolved);
}

static char *realpath_inside(struct fan_target_room *room, char *resolved)
{
    return room->target.where == FAN_TREE ? realpath_tree(room, resolved)
                                          : realpath_ours(room, resolved);
}

/* Shows the mount's path of a directory whose real path lies in a skeleton. */
static char *shown(char *path)
{
    if (path != NULL)
        fan_unskeleton(path, strlen(path), PATH_MAX);
    return path;
}

FAN_EXPORT char *realpath(const char *path, char *resolved)
{
    if (fan_job.view_count == 0)
        return REAL(realpath)(path, resolved);
    FAN_OFF_STACK(struct fan_target_room, room);
    if (room == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    struct fan_target *target = &room->target;
    char *own = room->path;
    if (fan_locate(AT_FDCWD, path, 0, target) || target->where == FAN_TREE)
        return fan_logged_pointer("realpath", path, target, realpath_inside(room, resolved));
    char *got = REAL(realpath)(target->path, own);
    if (got == NULL && errno == ENOENT && fan_relocate(AT_FDCWD, path, 0, target)) {
        if (target->where != FAN_OUTSIDE)
            return fan_logged_pointer("realpath", path, target, realpath_inside(room, resolved));
        got = REAL(realpath)(target->path, own);
    }
    if (got != NULL) {
        shown(got);
        got = give_path(got, strlen(got), resolved);
    } else if (resolved != NULL) {
        memcpy(resolved, own, sizeof(room->path)); /* up to the failure, as glibc leaves it */
    }
    return fan_logged_pointer("realpath", path, target, got);
}

/* libc's own function would look at the file without calling this library. */
FAN_EXPORT key_t ftok(const char *path, int project)
{
    struct stat st;
    if (fan_job.view_count == 0)
        return REAL(ftok)(path, project);
    if (stat(path, &st) != 0)
        return -1;
    return (key_t)((st.st_ino & 0xffff) | ((st.st_dev & 0xff) << 16) |
                   ((unsigned)(project & 0xff) << 24));
}
