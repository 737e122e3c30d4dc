/*
 * syscall(2) by number: some programs (node) make newer calls in this way. calls.def says how each
 * number is answered. Other numbers go to the kernel.
 */
#include "syscall.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "../../client/handoff/handoff.h"
#include "../../client/files/filetable.h"
#include "../../client/content/mapping.h"
#include "../../client/machine/park.h"
#include "../../client/open/open.h"
#include "../../common/sys.h"
#include "../cancel.h"
#include "../files/of_file.h"
#include "../real.h"
#include "../undeclared.h"

static long pass(long number, const struct fan_arguments *x)
{
    return REAL(syscall)(number, x->a, x->b, x->c, x->d, x->e, x->f);
}

/* Returns whether a descriptor is ours, or one that the library keeps. Calls for others go directly
 * to the kernel: another library may implement a call by syscall(2), and be called by this one. */
static bool is_ours(long fd)
{
    return fan_file_get((int)fd) != NULL || fan_is_parked((int)fd);
}

#ifdef SYS_getdents
/* Converts entries of getdents64 to those of getdents(2), which are as long: the name is one byte
 * lower, and the type is in the last byte. */
static long old_entries(int fd, char *buffer, size_t bytes)
{
    struct fan_file *file = fan_file_get(fd);
    if (file == NULL || !(fan_file_is_directory(file) || file->kind == FAN_FILE_OUTPUT))
        return fan_answer(FAN_SYS(getdents, fd, buffer, bytes));
    ssize_t got = getdents64(fd, buffer, bytes);
    for (ssize_t at = 0; at < got;) {
        struct dirent64 *entry = (void *)(buffer + at);
        char *name = (char *)&entry->d_type;
        unsigned char type = entry->d_type;
        size_t length = entry->d_reclen;
        memmove(name, entry->d_name, length - offsetof(struct dirent64, d_name));
        buffer[at + (ssize_t)length - 1] = (char)type;
        at += (ssize_t)length;
    }
    return got;
}
#endif

/* Forks without libc, whose fork handlers do not run. */
static long raw_fork(long number, const struct fan_arguments *x)
{
    fan_file_before_fork();
    long pid = pass(number, x);
    if (pid == 0)
        fan_process_after_fork_child();
    if (pid < 0)
        fan_file_after_failed_fork();
    return pid;
}

/* The kernel's own struct for pselect6: a signal set and its size. */
struct mask_and_size {
    const sigset_t *mask;
    size_t bytes;
};

static long wait_with_mask(const struct fan_arguments *x)
{
    const struct mask_and_size *with = (const struct mask_and_size *)x->f;
    return pselect((int)x->a, (fd_set *)x->b, (fd_set *)x->c, (fd_set *)x->d,
                   (const struct timespec *)x->e, with != NULL ? with->mask : NULL);
}

/* Makes a call that returns a new descriptor. Forgets a file of ours with that number, which was
 * closed without this library seeing it. */
static long given(long number, const struct fan_arguments *x)
{
    long fd = pass(number, x);
    if (fd >= 0)
        fan_file_remove((int)fd);
    return fd;
}

static long control(long number, const struct fan_arguments *x)
{
    if (is_ours(x->a))
        return fcntl((int)x->a, (int)x->b, x->c);
    bool gives = x->b == F_DUPFD || x->b == F_DUPFD_CLOEXEC;
    return gives ? given(number, x) : pass(number, x);
}

static long change_mode(int dirfd, const char *path, mode_t mode, int flags)
{
    bool itself = (flags & AT_EMPTY_PATH) && fan_given(path) && path[0] == '\0';
    return itself ? fchmod(dirfd, mode) : fchmodat(dirfd, path, mode, flags);
}

/* Answers getcwd(2): returns the length with the NUL. libc's getcwd would allocate for NULL. */
static long working_directory(char *buffer, size_t bytes)
{
    if (buffer == NULL || bytes == 0)
        return fan_answer(bytes == 0 ? -ERANGE : -EFAULT);
    return getcwd(buffer, bytes) != NULL ? (long)strlen(buffer) + 1 : -1;
}

#define A x->a
#define B x->b
#define C x->c
#define D x->d
#define E x->e
#define F x->f
#define P(argument) ((void *)(argument))
#define ALWAYS true
#define ON_FD is_ours(A)
#define ON_ANY_FD (is_ours(A) || is_ours(B) || is_ours(C))

long fan_syscall_answer(long number, const struct fan_arguments *x)
{
    switch (number) {
#define FAN_NUMBER(name, arguments, cancels, ours, answer)                                         \
    case SYS_##name:                                                                               \
        return (ours) ? (answer) : pass(number, x);
#include "../calls.def"
    default:
        return pass(number, x);
    }
}

enum { PLAIN, POINT };

/* Returns whether libc makes the call a cancellation point under its own name. syscall(2) is none,
 * and some programs use it for that reason. */
static bool may_cancel(long number)
{
    switch (number) {
#define FAN_NUMBER(name, arguments, cancels, ours, answer)                                         \
    case SYS_##name:                                                                               \
        return cancels;
#include "../calls.def"
    default:
        return false;
    }
}

static long dispatch_uncancelled(long number, const struct fan_arguments *x)
{
    bool held = !fan_cancel_anywhere && fan_cancel_hold();
    long rc = fan_syscall_answer(number, x);
    fan_cancel_end(held);
    return rc;
}

FAN_EXPORT long syscall(long number, ...)
{
    struct fan_arguments x;
    va_list list;
    va_start(list, number);
    x.a = va_arg(list, long);
    x.b = va_arg(list, long);
    x.c = va_arg(list, long);
    x.d = va_arg(list, long);
    x.e = va_arg(list, long);
    x.f = va_arg(list, long);
    va_end(list);
    if (fan_job.view_count == 0)
        return pass(number, &x);
    return may_cancel(number) ? dispatch_uncancelled(number, &x) : fan_syscall_answer(number, &x);
}
