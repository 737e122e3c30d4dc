/* Paths given to syscall(2). */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "../client/open.h"
#include "openat2.h"
#include "real.h"
#include "syscall.h"
#include "undeclared.h"

#define PATH_AT(which) ((const char *)x->which)

static long by_openat2(const struct fan_arguments *x)
{
    struct open_how how;
    int fd, rc = fan_how_read(&how, (const void *)x->c, (size_t)x->d);
    if (rc == 0 && fan_openat2((int)x->a, PATH_AT(b), &how, &fd))
        return fd;
    return rc == 0 ? fan_syscall_pass(SYS_openat2, x) : fan_answer(rc);
}

/* Calls that change names. */
static long by_name(long number, const struct fan_arguments *x)
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
    case SYS_mknod:
        return mknod(PATH_AT(a), (mode_t)x->b, (dev_t)x->c);
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
        return fan_syscall_pass(number, x);
    }
}

enum { CHMOD_WITH_FLAGS = 452 }; /* SYS_fchmodat2 */

static long change_mode(int dirfd, const char *path, mode_t mode, int flags)
{
    bool itself = (flags & AT_EMPTY_PATH) && fan_given(path) && path[0] == '\0';
    return itself ? fchmod(dirfd, mode) : fchmodat(dirfd, path, mode, flags);
}

/* Calls that change what a name stands for. */
static long by_change(long number, const struct fan_arguments *x)
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
#ifdef SYS_chmod
    case SYS_chmod:
        return chmod(PATH_AT(a), (mode_t)x->b);
    case SYS_chown:
        return chown(PATH_AT(a), (uid_t)x->b, (gid_t)x->c);
    case SYS_lchown:
        return lchown(PATH_AT(a), (uid_t)x->b, (gid_t)x->c);
    case SYS_utime:
        return utime(PATH_AT(a), (const struct utimbuf *)x->b);
    case SYS_utimes:
        return utimes(PATH_AT(a), (const struct timeval *)x->b);
    case SYS_futimesat:
        return futimesat((int)x->a, PATH_AT(b), (const struct timeval *)x->c);
#endif
    case CHMOD_WITH_FLAGS:
        return change_mode((int)x->a, PATH_AT(b), (mode_t)x->c, (int)x->d);
    default:
        return by_name(number, x);
    }
}

/* getcwd(2): the length with the NUL; libc's would make room for NULL. */
static long working_directory(char *buffer, size_t bytes)
{
    if (buffer == NULL || bytes == 0)
        return fan_answer(bytes == 0 ? -ERANGE : -EFAULT);
    return getcwd(buffer, bytes) != NULL ? (long)strlen(buffer) + 1 : -1;
}

/* Extended attributes, and what watches or names a file. */
static long by_attribute(long number, const struct fan_arguments *x)
{
    switch (number) {
    case SYS_getxattr:
        return getxattr(PATH_AT(a), PATH_AT(b), (void *)x->c, (size_t)x->d);
    case SYS_lgetxattr:
        return lgetxattr(PATH_AT(a), PATH_AT(b), (void *)x->c, (size_t)x->d);
    case SYS_listxattr:
        return listxattr(PATH_AT(a), (char *)x->b, (size_t)x->c);
    case SYS_llistxattr:
        return llistxattr(PATH_AT(a), (char *)x->b, (size_t)x->c);
    case SYS_setxattr:
        return setxattr(PATH_AT(a), PATH_AT(b), (const void *)x->c, (size_t)x->d, (int)x->e);
    case SYS_lsetxattr:
        return lsetxattr(PATH_AT(a), PATH_AT(b), (const void *)x->c, (size_t)x->d, (int)x->e);
    case SYS_removexattr:
        return removexattr(PATH_AT(a), PATH_AT(b));
    case SYS_lremovexattr:
        return lremovexattr(PATH_AT(a), PATH_AT(b));
    case SYS_inotify_add_watch:
        return inotify_add_watch((int)x->a, PATH_AT(b), (uint32_t)x->c);
    case SYS_name_to_handle_at:
        return name_to_handle_at((int)x->a, PATH_AT(b), (struct file_handle *)x->c, (int *)x->d,
                                 (int)x->e);
    default:
        return by_change(number, x);
    }
}

long fan_syscall_path(long number, const struct fan_arguments *x)
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
    case SYS_statfs:
        return statfs(PATH_AT(a), (struct statfs *)x->b);
    case SYS_getcwd:
        return working_directory((char *)x->a, (size_t)x->b);
#ifdef SYS_open
    case SYS_creat:
        return creat(PATH_AT(a), (mode_t)x->b);
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
        return by_attribute(number, x);
    }
}
