/* syscall(2) by number: some programs (node) ask for the newer calls in this way. */
#include "syscall.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../client/filetable.h"
#include "../client/mapped.h"
#include "../client/park.h"
#include "../client/process.h"
#include "../common/sys.h"
#include "cancel.h"
#include "real.h"
#include "undeclared.h"

long fan_syscall_pass(long number, const struct fan_arguments *x)
{
    return REAL(syscall)(number, x->a, x->b, x->c, x->d, x->e, x->f);
}

/* Another library's wrapper may be made of syscall(2), and ours calls it in turn: what is not ours
 * goes straight on. */
static bool is_ours(long fd)
{
    return fan_file_get((int)fd) != NULL || fan_is_parked((int)fd);
}

/* libc's posix_ calls answer the error itself. */
static long error_to_answer(int error)
{
    return error == 0 ? 0 : fan_answer(-error);
}

#ifdef SYS_getdents
/* An entry as getdents(2) has it is as long as getdents64's: the name lies one byte lower, and the
 * type in the last byte. */
static long old_entries(int fd, char *buffer, size_t bytes)
{
    struct fan_file *file = fan_file_get(fd);
    if (file == NULL || (file->kind != FAN_FILE_DIRECTORY && file->kind != FAN_FILE_OUTDIR))
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

/* fork past libc: its handlers do not run. */
static long raw_fork(long number, const struct fan_arguments *x)
{
    fan_file_before_fork();
    long pid = fan_syscall_pass(number, x);
    if (pid == 0)
        fan_process_after_fork_child();
    if (pid < 0)
        fan_file_after_failed_fork();
    return pid;
}

/* The kernel's own sigset and its size, for pselect6. */
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

/* Processes. */
static long by_process(long number, const struct fan_arguments *x)
{
    enum { SHARES_MEMORY = 0x100 }; /* CLONE_VM */
    switch (number) {
    case SYS_execve:
        return execve((const char *)x->a, (char *const *)x->b, (char *const *)x->c);
    case SYS_execveat:
        return execveat((int)x->a, (const char *)x->b, (char *const *)x->c, (char *const *)x->d,
                        (int)x->e);
    case SYS_clone:
        return x->a & SHARES_MEMORY ? fan_syscall_pass(number, x) : raw_fork(number, x);
#ifdef SYS_fork
    case SYS_fork:
        return raw_fork(number, x);
#endif
    case SYS_exit_group:
        _exit((int)x->a);
    default:
        return fan_syscall_path(number, x);
    }
}

/* Waiting, and what sockets carry. */
static long by_waiting(long number, const struct fan_arguments *x)
{
    switch (number) {
    case SYS_io_uring_setup: /* a ring would take placeholders, past us: see wrap_submit.c */
        return fan_answer(-ENOSYS);
    case SYS_io_submit:
        return fan_answer(fan_submit(x->a, x->b, (void *)x->c));
    case SYS_ppoll:
        return ppoll((struct pollfd *)x->a, (nfds_t)x->b, (const struct timespec *)x->c,
                     (const sigset_t *)x->d);
    case SYS_pselect6:
        return wait_with_mask(x);
    case SYS_epoll_ctl:
        return epoll_ctl((int)x->a, (int)x->b, (int)x->c, (struct epoll_event *)x->d);
    case SYS_connect:
        return connect((int)x->a, (const struct sockaddr *)x->b, (socklen_t)x->c);
    case SYS_bind:
        return bind((int)x->a, (const struct sockaddr *)x->b, (socklen_t)x->c);
    case SYS_sendto:
        return sendto((int)x->a, (const void *)x->b, (size_t)x->c, (int)x->d,
                      (const struct sockaddr *)x->e, (socklen_t)x->f);
    case SYS_sendmsg:
        return sendmsg((int)x->a, (const struct msghdr *)x->b, (int)x->c);
    case SYS_recvmsg:
        return recvmsg((int)x->a, (struct msghdr *)x->b, (int)x->c);
    case SYS_recvmmsg:
        return recvmmsg((int)x->a, (struct mmsghdr *)x->b, (unsigned)x->c, (int)x->d,
                        (struct timespec *)x->e);
    case SYS_sendmmsg:
        return sendmmsg((int)x->a, (struct mmsghdr *)x->b, (unsigned)x->c, (int)x->d);
#ifdef SYS_poll
    case SYS_poll:
        return poll((struct pollfd *)x->a, (nfds_t)x->b, (int)x->c);
    case SYS_select:
        return select((int)x->a, (fd_set *)x->b, (fd_set *)x->c, (fd_set *)x->d,
                      (struct timeval *)x->e);
#endif
    default:
        return by_process(number, x);
    }
}

/* What is asked of a descriptor besides its content. */
static long by_state(long number, const struct fan_arguments *x)
{
    int fd = (int)x->a;
    switch (number) {
    case SYS_ioctl:
        return ioctl(fd, (unsigned long)x->b, x->c);
    case SYS_flock:
        return flock(fd, (int)x->b);
    case SYS_fsync:
        return fsync(fd);
    case SYS_fdatasync:
        return fdatasync(fd);
    case SYS_syncfs:
        return syncfs(fd);
    case SYS_sync_file_range:
        return sync_file_range(fd, x->b, x->c, (unsigned)x->d);
    case SYS_fadvise64:
        return error_to_answer(posix_fadvise(fd, x->b, x->c, (int)x->d));
    case SYS_readahead:
        return readahead(fd, x->b, (size_t)x->c);
    case SYS_fallocate:
        return fallocate(fd, (int)x->b, x->c, x->d);
    case SYS_fchmod:
        return fchmod(fd, (mode_t)x->b);
    case SYS_fchown:
        return fchown(fd, (uid_t)x->b, (gid_t)x->c);
    case SYS_fstatfs:
        return fstatfs(fd, (struct statfs *)x->b);
    case SYS_fgetxattr:
        return fgetxattr(fd, (const char *)x->b, (void *)x->c, (size_t)x->d);
    case SYS_flistxattr:
        return flistxattr(fd, (char *)x->b, (size_t)x->c);
    case SYS_fsetxattr:
        return fsetxattr(fd, (const char *)x->b, (const void *)x->c, (size_t)x->d, (int)x->e);
    case SYS_fremovexattr:
        return fremovexattr(fd, (const char *)x->b);
    default:
        return fan_syscall_pass(number, x);
    }
}

/* Moving content without reading it. */
static long by_transfer(long number, const struct fan_arguments *x)
{
    if (!is_ours(x->a) && !is_ours(x->b) && !is_ours(x->c))
        return by_waiting(number, x);
    switch (number) {
    case SYS_sendfile:
        return sendfile((int)x->a, (int)x->b, (off_t *)x->c, (size_t)x->d);
    case SYS_copy_file_range:
        return copy_file_range((int)x->a, (off64_t *)x->b, (int)x->c, (off64_t *)x->d,
                               (size_t)x->e, (unsigned)x->f);
    case SYS_splice:
        return splice((int)x->a, (off64_t *)x->b, (int)x->c, (off64_t *)x->d, (size_t)x->e,
                      (unsigned)x->f);
    case SYS_tee:
        return tee((int)x->a, (int)x->b, (size_t)x->c, (unsigned)x->d);
    default:
        return by_waiting(number, x);
    }
}

static long by_mapping(long number, const struct fan_arguments *x)
{
    struct fan_mapped found;
    switch (number) {
    case SYS_mmap:
        if ((x->d & MAP_ANONYMOUS) || !is_ours(x->e))
            return fan_syscall_pass(number, x);
        return (long)mmap((void *)x->a, (size_t)x->b, (int)x->c, (int)x->d, (int)x->e, x->f);
    case SYS_mremap:
        if (!fan_mapped_at((void *)x->a, &found))
            return fan_syscall_pass(number, x);
        return (long)mremap((void *)x->a, (size_t)x->b, (size_t)x->c, (int)x->d, (void *)x->e);
    case SYS_remap_file_pages:
        if (!fan_mapped_at((void *)x->a, &found))
            return fan_syscall_pass(number, x);
        return remap_file_pages((void *)x->a, (size_t)x->b, (int)x->c, (size_t)x->d, (int)x->e);
    default:
        return by_transfer(number, x);
    }
}

/* A number that the kernel gave to what is not ours: whatever stood under it was closed past us. */
static long given(long number, const struct fan_arguments *x)
{
    long fd = fan_syscall_pass(number, x);
    if (fd >= 0)
        fan_file_remove((int)fd);
    return fd;
}

/* The descriptor itself. */
static long by_number(long number, const struct fan_arguments *x)
{
    int fd = (int)x->a;
    switch (number) {
    case SYS_close:
        return is_ours(fd) ? close(fd) : fan_syscall_pass(number, x);
    case SYS_close_range:
        return close_range((unsigned)x->a, (unsigned)x->b, (int)x->c);
    case SYS_dup:
        return is_ours(fd) ? dup(fd) : given(number, x);
    case SYS_fcntl:
        if (is_ours(fd))
            return fcntl(fd, (int)x->b, x->c);
        return x->b == F_DUPFD || x->b == F_DUPFD_CLOEXEC ? given(number, x)
                                                          : fan_syscall_pass(number, x);
    case SYS_dup3:
        return is_ours(fd) || is_ours(x->b) ? dup3(fd, (int)x->b, (int)x->c)
                                            : fan_syscall_pass(number, x);
#ifdef SYS_dup2
    case SYS_dup2:
        return is_ours(fd) || is_ours(x->b) ? dup2(fd, (int)x->b) : fan_syscall_pass(number, x);
#endif
    default:
        return by_mapping(number, x);
    }
}

/* The content of an open file of ours. */
static long by_content(long number, const struct fan_arguments *x)
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
    case SYS_preadv2:
        return preadv2(fd, (const struct iovec *)x->b, (int)x->c, x->d, (int)x->f);
    case SYS_lseek:
        return lseek(fd, x->b, (int)x->c);
    case SYS_fstat:
        return fstat(fd, (struct stat *)x->b);
    case SYS_getdents64:
        return getdents64(fd, (void *)x->b, (size_t)x->c);
#ifdef SYS_getdents
    case SYS_getdents:
        return old_entries(fd, (char *)x->b, (size_t)x->c);
#endif
    default:
        return by_state(number, x);
    }
}

/* Whether the first argument is a descriptor, and the call one of by_content or by_state. */
static bool is_of_descriptor(long number)
{
    switch (number) {
    case SYS_read: case SYS_pread64: case SYS_readv: case SYS_preadv: case SYS_preadv2:
    case SYS_lseek: case SYS_fstat: case SYS_getdents64: case SYS_ioctl: case SYS_flock:
    case SYS_fsync: case SYS_fdatasync: case SYS_syncfs: case SYS_sync_file_range:
    case SYS_fadvise64: case SYS_readahead: case SYS_fallocate: case SYS_fchmod: case SYS_fchown:
    case SYS_fstatfs: case SYS_fgetxattr: case SYS_flistxattr: case SYS_fsetxattr:
    case SYS_fremovexattr:
#ifdef SYS_getdents
    case SYS_getdents:
#endif
        return true;
    default:
        return false;
    }
}

long fan_syscall_answer(long number, const struct fan_arguments *x)
{
    if (!is_of_descriptor(number))
        return by_number(number, x);
    return is_ours(x->a) ? by_content(number, x) : fan_syscall_pass(number, x);
}

/* The calls that libc makes cancellation points under their own names. syscall(2) is none: it is
 * what some call because of that. */
static bool may_cancel(long number)
{
    switch (number) {
    case SYS_openat: case SYS_openat2: case SYS_close: case SYS_read: case SYS_pread64:
    case SYS_readv: case SYS_preadv: case SYS_preadv2: case SYS_fsync: case SYS_fdatasync:
    case SYS_fcntl: case SYS_fallocate: case SYS_sync_file_range: case SYS_copy_file_range:
    case SYS_splice: case SYS_tee: case SYS_ppoll: case SYS_pselect6: case SYS_connect:
    case SYS_sendto: case SYS_sendmsg: case SYS_sendmmsg:
#ifdef SYS_open
    case SYS_open: case SYS_creat: case SYS_poll: case SYS_select:
#endif
        return true;
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
        return fan_syscall_pass(number, &x);
    return may_cancel(number) ? dispatch_uncancelled(number, &x) : fan_syscall_answer(number, &x);
}
