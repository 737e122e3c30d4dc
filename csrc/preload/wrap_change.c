/* Calls that would change the file system: refused on inputs, as on a read-only mount. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "../client/linked.h"
#include "../client/open.h"
#include "../common/sys.h"
#include "real.h"
#include "undeclared.h"

static unsigned follow_flags(int flags)
{
    return (flags & AT_SYMLINK_NOFOLLOW ? FAN_NOFOLLOW : 0u) |
           (flags & AT_EMPTY_PATH ? FAN_EMPTY_PATH : 0u);
}

enum last { LAST_NAME, LAST_DOT, LAST_DOT_DOT };

/* What the last component of a path is, before links are looked at. */
static enum last last_of(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (end - start == 1 && path[start] == '.')
        return LAST_DOT;
    return end - start == 2 && memcmp(path + start, "..", 2) == 0 ? LAST_DOT_DOT : LAST_NAME;
}

/* A name to be removed or replaced: a read-only file system refuses before it looks whether the
 * name is there, but its directory must be. */
static int refuse_name(const struct fan_target *target)
{
    bool reached = target->where != FAN_MISSING || (target->error == ENOENT && target->creatable);
    return reached ? fan_refuse_change(target, target->where == FAN_MISSING) : -target->error;
}

/* Whether a real descriptor is one of an original: inherited, or opened by a link outside. */
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

/* AT_EMPTY_PATH: the descriptor itself, be it a real one. */
static bool names_original(int dirfd, const char *path, unsigned flags)
{
    return (flags & FAN_EMPTY_PATH) && fan_given(path) && path[0] == '\0' && dirfd != AT_FDCWD &&
           is_original(dirfd);
}

/* One path to an existing file. When it is ours, `*answer` is what the call returns. */
static bool refused(int dirfd, const char *path, unsigned flags, struct fan_target *target,
                    int *answer)
{
    if (!fan_locate_change(dirfd, path, flags, target)) {
        if (!names_original(dirfd, path, flags))
            return false;
        *answer = (int)fan_answer(-EROFS);
        return true;
    }
    *answer = (int)fan_answer(fan_refuse_change(target, false));
    return true;
}

/* One path to a name that the call would make. */
static bool refused_new(int dirfd, const char *path, struct fan_target *target, int *answer)
{
    if (!fan_locate_change(dirfd, path, FAN_NOFOLLOW, target))
        return false;
    *answer = (int)fan_answer(fan_refuse_change(target, true));
    return true;
}

FAN_EXPORT int unlinkat(int dirfd, const char *path, int flags)
{
    struct fan_target target;
    if (!fan_locate_change(dirfd, path, FAN_NOFOLLOW, &target))
        return REAL(unlinkat)(target.dirfd, target.path, flags);
    if (flags & ~AT_REMOVEDIR)
        return (int)fan_answer(-EINVAL);
    int rc = refuse_name(&target);
    enum last last = last_of(path);
    if (rc == -EROFS && !(flags & AT_REMOVEDIR) && last != LAST_NAME)
        rc = -EISDIR;
    else if (rc == -EROFS && last != LAST_NAME)
        rc = last == LAST_DOT ? -EINVAL : -ENOTEMPTY;
    else if (rc == -EROFS && target.where == FAN_INPUT && target.id == 0)
        rc = flags & AT_REMOVEDIR ? -EBUSY : -EISDIR;
    return (int)fan_answer(rc);
}

FAN_EXPORT int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

FAN_EXPORT int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

FAN_EXPORT int remove(const char *path)
{
    struct fan_target target;
    if (!fan_locate_change(AT_FDCWD, path, FAN_NOFOLLOW, &target))
        return REAL(remove)(target.path);
    bool directory = target.where == FAN_INPUT && S_ISDIR(target.record->mode);
    return unlinkat(AT_FDCWD, path, directory ? AT_REMOVEDIR : 0);
}

/* Of two paths at least one is ours: one of ours and one outside are on two file systems. */
static int refuse_rename(const struct fan_target *from, bool from_ours, const struct fan_target *to,
                         bool to_ours, bool plain_names)
{
    int rc = from_ours ? refuse_name(from) : -EROFS;
    if (rc == -EROFS && to_ours)
        rc = refuse_name(to);
    if (rc != -EROFS)
        return rc;
    return from_ours != to_ours ? -EXDEV : plain_names ? -EROFS : -EBUSY;
}

FAN_EXPORT int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    const unsigned known = RENAME_NOREPLACE | RENAME_EXCHANGE | RENAME_WHITEOUT;
    struct fan_target old, new;
    bool old_ours = fan_locate_change(from_fd, from, FAN_NOFOLLOW, &old);
    bool new_ours = fan_locate_change(to_fd, to, FAN_NOFOLLOW, &new);
    bool plain_names = (!old_ours || last_of(from) == LAST_NAME) &&
                       (!new_ours || last_of(to) == LAST_NAME);
    if (old_ours || new_ours)
        return (int)fan_answer(flags & ~known ? -EINVAL
                                              : refuse_rename(&old, old_ours, &new, new_ours,
                                                              plain_names));
    if (flags == 0)
        return REAL(renameat)(old.dirfd, old.path, new.dirfd, new.path);
    return REAL(renameat2)(old.dirfd, old.path, new.dirfd, new.path, flags);
}

FAN_EXPORT int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}

FAN_EXPORT int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* -errno when the real file system has no such file. */
static int look_outside(const struct fan_target *target, unsigned flags)
{
    struct stat st;
    int how = flags & FAN_NOFOLLOW ? AT_SYMLINK_NOFOLLOW : 0;
    return (int)FAN_SYS(newfstatat, target->dirfd, target->path, &st, how);
}

/* The old name must be there, the new one not; then the new one's file system is asked. */
static int refuse_link(const struct fan_target *from, bool from_ours, const struct fan_target *to,
                       bool to_ours, unsigned flags)
{
    int rc = !from_ours                     ? look_outside(from, flags)
             : from->where == FAN_MISSING   ? -from->error
                                            : 0;
    if (rc != 0)
        return rc;
    if (to_ours)
        return fan_refuse_change(to, true);
    return look_outside(to, FAN_NOFOLLOW) == 0 ? -EEXIST : -EXDEV;
}

FAN_EXPORT int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    struct fan_target old, new;
    unsigned how = (flags & AT_SYMLINK_FOLLOW ? 0u : FAN_NOFOLLOW) |
                   (flags & AT_EMPTY_PATH ? FAN_EMPTY_PATH : 0u);
    bool old_ours = fan_locate_change(from_fd, from, how, &old);
    bool new_ours = fan_locate_change(to_fd, to, FAN_NOFOLLOW, &new);
    if (old_ours || new_ours)
        return (int)fan_answer(refuse_link(&old, old_ours, &new, new_ours, how));
    return REAL(linkat)(old.dirfd, old.path, new.dirfd, new.path, flags);
}

FAN_EXPORT int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

FAN_EXPORT int symlinkat(const char *content, int dirfd, const char *path)
{
    struct fan_target target;
    int answer;
    if (!refused_new(dirfd, path, &target, &answer))
        return REAL(symlinkat)(content, target.dirfd, target.path);
    return content[0] == '\0' ? (int)fan_answer(-ENOENT) : answer;
}

FAN_EXPORT int symlink(const char *content, const char *path)
{
    return symlinkat(content, AT_FDCWD, path);
}

FAN_EXPORT int mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct fan_target target;
    int answer;
    return refused_new(dirfd, path, &target, &answer)
               ? answer
               : REAL(mkdirat)(target.dirfd, target.path, mode);
}

FAN_EXPORT int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}

/* glibc before 2.33 has no `mknodat` to hand on to. */
static int real_mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    __typeof__(&mknodat) call = REAL(mknodat);
    return call != NULL ? call(dirfd, path, mode, device)
                        : (int)fan_answer(FAN_SYS(mknodat, dirfd, path, mode, device));
}

FAN_EXPORT int mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    struct fan_target target;
    int answer;
    return refused_new(dirfd, path, &target, &answer)
               ? answer
               : real_mknodat(target.dirfd, target.path, mode, device);
}

FAN_EXPORT int mknod(const char *path, mode_t mode, dev_t device)
{
    return mknodat(AT_FDCWD, path, mode, device);
}

/* What mknod is in programs built with glibc before 2.33; of the version there is one. */
FAN_EXPORT int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device)
{
    return version == 0 ? mknodat(dirfd, path, mode, *device) : (int)fan_answer(-EINVAL);
}

FAN_EXPORT int __xmknod(int version, const char *path, mode_t mode, dev_t *device)
{
    return __xmknodat(version, AT_FDCWD, path, mode, device);
}

FAN_EXPORT int mkfifoat(int dirfd, const char *path, mode_t mode)
{
    struct fan_target target;
    int answer;
    return refused_new(dirfd, path, &target, &answer)
               ? answer
               : REAL(mkfifoat)(target.dirfd, target.path, mode);
}

FAN_EXPORT int mkfifo(const char *path, mode_t mode)
{
    return mkfifoat(AT_FDCWD, path, mode);
}

FAN_EXPORT int truncate(const char *path, off_t bytes)
{
    struct fan_target target;
    if (!fan_locate_change(AT_FDCWD, path, 0, &target))
        return REAL(truncate)(target.path, bytes);
    bool directory = target.where == FAN_INPUT && S_ISDIR(target.record->mode);
    return (int)fan_answer(bytes < 0   ? -EINVAL
                           : directory ? -EISDIR
                                       : fan_refuse_change(&target, false));
}

FAN_ALIAS(truncate64, truncate);

FAN_EXPORT int fchmodat(int dirfd, const char *path, mode_t mode, int flags)
{
    struct fan_target target;
    int answer;
    return refused(dirfd, path, follow_flags(flags), &target, &answer)
               ? answer
               : REAL(fchmodat)(target.dirfd, target.path, mode, flags);
}

FAN_EXPORT int chmod(const char *path, mode_t mode)
{
    return fchmodat(AT_FDCWD, path, mode, 0);
}

FAN_EXPORT int lchmod(const char *path, mode_t mode)
{
    return fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW);
}

FAN_EXPORT int fchownat(int dirfd, const char *path, uid_t uid, gid_t gid, int flags)
{
    struct fan_target target;
    int answer;
    return refused(dirfd, path, follow_flags(flags), &target, &answer)
               ? answer
               : REAL(fchownat)(target.dirfd, target.path, uid, gid, flags);
}

FAN_EXPORT int chown(const char *path, uid_t uid, gid_t gid)
{
    return fchownat(AT_FDCWD, path, uid, gid, 0);
}

FAN_EXPORT int lchown(const char *path, uid_t uid, gid_t gid)
{
    return fchownat(AT_FDCWD, path, uid, gid, AT_SYMLINK_NOFOLLOW);
}

/* A descriptor of a file of ours: what a change through it answers, 0 when it is not ours. */
static int refused_fd(int fd)
{
    const struct fan_file *file = fan_file_get(fd);
    if (file == NULL)
        return is_original(fd) ? (fan_sys_fcntl(fd, F_GETFL, 0) & O_PATH ? -EBADF : -EROFS) : 0;
    if (file->record == NULL)
        return 0;
    return file->kind == FAN_FILE_PATH ? -EBADF : -EROFS;
}

FAN_EXPORT int fchmod(int fd, mode_t mode)
{
    int rc = refused_fd(fd);
    return rc != 0 ? (int)fan_answer(rc) : REAL(fchmod)(fd, mode);
}

FAN_EXPORT int fchown(int fd, uid_t uid, gid_t gid)
{
    int rc = refused_fd(fd);
    return rc != 0 ? (int)fan_answer(rc) : REAL(fchown)(fd, uid, gid);
}

FAN_EXPORT int futimens(int fd, const struct timespec times[2])
{
    int rc = refused_fd(fd);
    return rc != 0 ? (int)fan_answer(rc) : REAL(futimens)(fd, times);
}

FAN_EXPORT int futimes(int fd, const struct timeval times[2])
{
    int rc = refused_fd(fd);
    return rc != 0 ? (int)fan_answer(rc) : REAL(futimes)(fd, times);
}

FAN_EXPORT int utimensat(int dirfd, const char *path, const struct timespec times[2], int flags)
{
    struct fan_target target;
    int answer;
    return refused(dirfd, path, follow_flags(flags), &target, &answer)
               ? answer
               : REAL(utimensat)(target.dirfd, target.path, times, flags);
}

FAN_EXPORT int utime(const char *path, const struct utimbuf *times)
{
    struct fan_target target;
    int answer;
    return refused(AT_FDCWD, path, 0, &target, &answer) ? answer
                                                        : REAL(utime)(target.path, times);
}

FAN_EXPORT int utimes(const char *path, const struct timeval times[2])
{
    struct fan_target target;
    int answer;
    return refused(AT_FDCWD, path, 0, &target, &answer) ? answer
                                                        : REAL(utimes)(target.path, times);
}

FAN_EXPORT int lutimes(const char *path, const struct timeval times[2])
{
    struct fan_target target;
    int answer;
    return refused(AT_FDCWD, path, FAN_NOFOLLOW, &target, &answer) ? answer
                                                                   : REAL(lutimes)(target.path,
                                                                                   times);
}

FAN_EXPORT int futimesat(int dirfd, const char *path, const struct timeval times[2])
{
    struct fan_target target;
    int answer;
    return refused(dirfd, path, 0, &target, &answer)
               ? answer
               : REAL(futimesat)(target.dirfd, target.path, times);
}

FAN_EXPORT int setxattr(const char *path, const char *name, const void *value, size_t bytes,
                        int flags)
{
    struct fan_target target;
    int answer;
    return refused(AT_FDCWD, path, 0, &target, &answer)
               ? answer
               : REAL(setxattr)(target.path, name, value, bytes, flags);
}

FAN_EXPORT int lsetxattr(const char *path, const char *name, const void *value, size_t bytes,
                         int flags)
{
    struct fan_target target;
    int answer;
    return refused(AT_FDCWD, path, FAN_NOFOLLOW, &target, &answer)
               ? answer
               : REAL(lsetxattr)(target.path, name, value, bytes, flags);
}

FAN_EXPORT int fsetxattr(int fd, const char *name, const void *value, size_t bytes, int flags)
{
    int rc = refused_fd(fd);
    return rc != 0 ? (int)fan_answer(rc) : REAL(fsetxattr)(fd, name, value, bytes, flags);
}

FAN_EXPORT int removexattr(const char *path, const char *name)
{
    struct fan_target target;
    int answer;
    return refused(AT_FDCWD, path, 0, &target, &answer) ? answer
                                                        : REAL(removexattr)(target.path, name);
}

FAN_EXPORT int lremovexattr(const char *path, const char *name)
{
    struct fan_target target;
    int answer;
    return refused(AT_FDCWD, path, FAN_NOFOLLOW, &target, &answer)
               ? answer
               : REAL(lremovexattr)(target.path, name);
}

FAN_EXPORT int fremovexattr(int fd, const char *name)
{
    int rc = refused_fd(fd);
    return rc != 0 ? (int)fan_answer(rc) : REAL(fremovexattr)(fd, name);
}

/* The mk*temp family makes names inside libc, past us: the template's place decides. */
static bool template_refused(const char *template, int suffix_bytes)
{
    struct fan_target target;
    size_t length = strlen(template);
    if (suffix_bytes < 0 || length < 6 + (size_t)suffix_bytes ||
        memcmp(template + length - (size_t)suffix_bytes - 6, "XXXXXX", 6) != 0)
        return false; /* EINVAL is libc's to say */
    if (!fan_locate_change(AT_FDCWD, template, FAN_NOFOLLOW, &target))
        return false;
    fan_answer(fan_refuse_change(&target, true));
    return true;
}

FAN_EXPORT int mkostemps(char *template, int suffix_bytes, int flags)
{
    return template_refused(template, suffix_bytes)
               ? -1
               : REAL(mkostemps)(template, suffix_bytes, flags);
}

FAN_EXPORT int mkstemps(char *template, int suffix_bytes)
{
    return mkostemps(template, suffix_bytes, 0);
}

FAN_EXPORT int mkostemp(char *template, int flags)
{
    return mkostemps(template, 0, flags);
}

FAN_EXPORT int mkstemp(char *template)
{
    return mkostemps(template, 0, 0);
}

FAN_EXPORT char *mkdtemp(char *template)
{
    return template_refused(template, 0) ? NULL : REAL(mkdtemp)(template);
}

FAN_ALIAS(mkostemps64, mkostemps);
FAN_ALIAS(mkstemps64, mkstemps);
FAN_ALIAS(mkostemp64, mkostemp);
FAN_ALIAS(mkstemp64, mkstemp);
