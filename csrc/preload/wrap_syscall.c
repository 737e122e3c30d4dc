/* syscall(2) by number: some programs (node) ask for the newer calls in this way. */
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../client/open.h"
#include "../client/resolve.h"
#include "real.h"
#include "undeclared.h"

struct arguments {
    long a, b, c, d, e, f;
};

static long pass(long number, const struct arguments *x)
{
    return REAL(syscall)(number, x->a, x->b, x->c, x->d, x->e, x->f);
}

/* The restrictions of openat2 on how a path is resolved are the kernel's to keep: a path of ours
 * with any of them is refused. */
static long by_openat2(const struct arguments *x)
{
    const struct open_how *how = (const struct open_how *)x->c;
    struct fan_target target;
    unsigned flags = how->flags & O_NOFOLLOW ? FAN_NOFOLLOW : 0;
    bool ours = fan_open_changes((int)how->flags)
                    ? fan_locate_change((int)x->a, (const char *)x->b, flags, &target)
                    : fan_locate((int)x->a, (const char *)x->b, flags, &target);
    if (!ours)
        return pass(SYS_openat2, x);
    if (how->resolve != 0)
        return fan_answer(-EINVAL);
    return openat((int)x->a, (const char *)x->b, (int)how->flags, (mode_t)how->mode);
}

#define PATH_AT(which) ((const char *)x->which)

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
        return pass(number, x);
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
