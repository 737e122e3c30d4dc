/* syscall(2) by number: some programs (node) ask for the newer calls in this way. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../client/open.h"
#include "../client/spelling.h"
#include "real.h"
#include "undeclared.h"

struct arguments {
    long a, b, c, d, e, f;
};

static long pass(long number, const struct arguments *x)
{
    return REAL(syscall)(number, x->a, x->b, x->c, x->d, x->e, x->f);
}

#define PATH_AT(which) ((const char *)x->which)

/* Whether one of the names on the way, or the last, is a symbolic link. */
static bool has_link(int dirfd, const char *path, bool last)
{
    char part[PATH_MAX];
    struct stat st;
    for (const char *end = path; *end != '\0';) {
        while (*end == '/')
            end++;
        end += strcspn(end, "/");
        if (*end == '\0' && !last)
            return false;
        memcpy(part, path, (size_t)(end - path));
        part[end - path] = '\0';
        if (fstatat(dirfd, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            return true;
    }
    return false;
}

/* What openat2 allows of a path of ours. A path that may not leave where it starts is refused for
 * any ".." and any link, wherever they lead. */
static long check_resolve(int dirfd, const char *path, const struct open_how *how)
{
    const uint64_t free_of = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS;
    const uint64_t known = free_of | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    bool beneath = (how->resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
    if (how->resolve & ~known)
        return -EINVAL;
    if (strlen(path) >= PATH_MAX)
        return -ENAMETOOLONG;
    if (beneath && (path[0] == '/' || fan_has_dot_dot(path)))
        return -EXDEV;
    if ((how->resolve & ~free_of) == 0 || !has_link(dirfd, path, !(how->flags & O_NOFOLLOW)))
        return 0;
    return how->resolve & RESOLVE_NO_SYMLINKS ? -ELOOP : -EXDEV;
}

static long by_openat2(const struct arguments *x)
{
    const struct open_how *how = (const struct open_how *)x->c;
    struct fan_target target;
    if (!fan_locate((int)x->a, PATH_AT(b), fan_open_resolve((int)how->flags), &target))
        return pass(SYS_openat2, x);
    long rc = check_resolve((int)x->a, PATH_AT(b), how);
    return rc < 0 ? fan_answer(rc)
                  : openat((int)x->a, PATH_AT(b), (int)how->flags, (mode_t)how->mode);
}

/* Calls that change names. */
static long by_name(long number, const struct arguments *x)
{
    switch (number) {
    case SYS_renameat2:
        return renameat2((int)x->a, PATH_AT(b), (int)x->c, PATH_AT(d), (unsigned)x->e);
    case SYS_unlinkat:
        return unlinkat((int)x->a, PATH_AT(b), (int)x->c);
    case SYS_mkdirat:
        return mkdirat((int)x->a, PATH_AT(b), (mode_t)x->c);
    case SYS_mknodat:
        return mknodat((int)x->a, PATH_AT(b), (mode_t)x->c, (dev_t)x->d);
    case SYS_symlinkat:
        return symlinkat(PATH_AT(a), (int)x->b, PATH_AT(c));
    case SYS_linkat:
        return linkat((int)x->a, PATH_AT(b), (int)x->c, PATH_AT(d), (int)x->e);
#ifdef SYS_rename
    case SYS_rename:
        return rename(PATH_AT(a), PATH_AT(b));
    case SYS_renameat:
        return renameat((int)x->a, PATH_AT(b), (int)x->c, PATH_AT(d));
    case SYS_unlink:
        return unlink(PATH_AT(a));
    case SYS_rmdir:
        return rmdir(PATH_AT(a));
    case SYS_mkdir:
        return mkdir(PATH_AT(a), (mode_t)x->b);
    case SYS_symlink:
        return symlink(PATH_AT(a), PATH_AT(b));
    case SYS_link:
        return link(PATH_AT(a), PATH_AT(b));
#endif
    default:
        return pass(number, x);
    }
}

/* Calls that change what a name stands for. */
static long by_change(long number, const struct arguments *x)
{
    switch (number) {
    case SYS_fchmodat:
        return fchmodat((int)x->a, PATH_AT(b), (mode_t)x->c, 0);
    case SYS_fchownat:
        return fchownat((int)x->a, PATH_AT(b), (uid_t)x->c, (gid_t)x->d, (int)x->e);
    case SYS_utimensat:
        return x->b == 0 ? futimens((int)x->a, (const struct timespec *)x->c)
                         : utimensat((int)x->a, PATH_AT(b), (const struct timespec *)x->c,
                                     (int)x->d);
    case SYS_truncate:
        return truncate(PATH_AT(a), x->b);
    case SYS_ftruncate:
        return ftruncate((int)x->a, x->b);
    case SYS_chdir:
        return chdir(PATH_AT(a));
    case SYS_fchdir:
        return fchdir((int)x->a);
    default:
        return by_name(number, x);
    }
}

static long by_path(long number, const struct arguments *x)
{
    switch (number) {
    case SYS_openat:
        return openat((int)x->a, PATH_AT(b), (int)x->c, (mode_t)x->d);
    case SYS_openat2:
        return by_openat2(x);
    case SYS_statx:
        return statx((int)x->a, PATH_AT(b), (int)x->c, (unsigned)x->d, (struct statx *)x->e);
    case SYS_newfstatat:
        return fstatat((int)x->a, PATH_AT(b), (struct stat *)x->c, (int)x->d);
    case SYS_faccessat:
        return faccessat((int)x->a, PATH_AT(b), (int)x->c, 0);
    case SYS_faccessat2:
        return faccessat((int)x->a, PATH_AT(b), (int)x->c, (int)x->d);
    case SYS_readlinkat:
        return readlinkat((int)x->a, PATH_AT(b), (char *)x->c, (size_t)x->d);
#ifdef SYS_open
    case SYS_open:
        return open(PATH_AT(a), (int)x->b, (mode_t)x->c);
    case SYS_stat:
        return stat(PATH_AT(a), (struct stat *)x->b);
    case SYS_lstat:
        return lstat(PATH_AT(a), (struct stat *)x->b);
    case SYS_access:
        return access(PATH_AT(a), (int)x->b);
    case SYS_readlink:
        return readlink(PATH_AT(a), (char *)x->b, (size_t)x->c);
#endif
    default:
        return by_change(number, x);
    }
}

static long by_descriptor(long number, const struct arguments *x)
{
    int fd = (int)x->a;
    switch (number) {
    case SYS_read:
        return read(fd, (void *)x->b, (size_t)x->c);
    case SYS_pread64:
        return pread(fd, (void *)x->b, (size_t)x->c, x->d);
    case SYS_readv:
        return readv(fd, (const struct iovec *)x->b, (int)x->c);
    case SYS_preadv:
        return preadv(fd, (const struct iovec *)x->b, (int)x->c, x->d);
    case SYS_lseek:
        return lseek(fd, x->b, (int)x->c);
    case SYS_fstat:
        return fstat(fd, (struct stat *)x->b);
    case SYS_getdents64:
        return getdents64(fd, (void *)x->b, (size_t)x->c);
    case SYS_close:
        return close(fd);
    case SYS_dup:
        return dup(fd);
    case SYS_dup3:
        return dup3(fd, (int)x->b, (int)x->c);
    case SYS_exit_group:
        _exit((int)x->a);
    default:
        return by_path(number, x);
    }
}

FAN_EXPORT long syscall(long number, ...)
{
    struct arguments x;
    va_list list;
    va_start(list, number);
    x.a = va_arg(list, long);
    x.b = va_arg(list, long);
    x.c = va_arg(list, long);
    x.d = va_arg(list, long);
    x.e = va_arg(list, long);
    x.f = va_arg(list, long);
    va_end(list);
    return fan_job.view_count == 0 ? pass(number, &x) : by_descriptor(number, &x);
}
