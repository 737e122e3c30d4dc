/* Calls for descriptors: duplicating, fcntl, locks, hints, waiting. */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <unistd.h>

#include "../../client/machine/vfork.h"
#include "../../client/content/content_io.h"
#include "../../client/open/open.h"
#include "../../client/files/overlay.h"
#include "../../client/machine/park.h"
#include "../../common/sys.h"
#include "../cancel.h"
#include "../real.h"
#include "cookie.h"
#include "of_file.h"

/* Records that the kernel made `to` a duplicate of `from`. */
static int note_duplicate(int from, int to)
{
    struct fan_file *file = fan_file_get(from);
    int rc = 0;
    if (file == NULL)
        fan_file_remove(to);
    else
        rc = fan_file_share(to, file);
    if (rc != 0)
        fan_sys_close(to);
    if (rc != 0)
        return (int)fan_answer(-ENOMEM);
    if (to == 0 && file != NULL && !fan_in_vfork_child())
        fan_stream_take_stdin();
    return to;
}

FAN_EXPORT int dup(int fd)
{
    if (fan_is_parked(fd))
        return (int)fan_answer(-EBADF);
    int to = REAL(dup)(fd);
    return to < 0 ? to : note_duplicate(fd, to);
}

/* Moves a descriptor of the library away because the program wants its number. */
static int make_room(int fd)
{
    return fan_is_parked(fd) ? fan_repark(fd) : 0;
}

FAN_EXPORT int dup2(int from, int to)
{
    if (fan_is_parked(from) || make_room(to) < 0)
        return (int)fan_answer(-EBADF);
    int got = REAL(dup2)(from, to);
    return got < 0 || from == to ? got : note_duplicate(from, to);
}

FAN_EXPORT int dup3(int from, int to, int flags)
{
    if (fan_is_parked(from) || make_room(to) < 0)
        return (int)fan_answer(-EBADF);
    int got = REAL(dup3)(from, to, flags);
    return got < 0 ? got : note_duplicate(from, to);
}

FAN_EXPORT int fcntl(int fd, int command, ...)
{
    va_list list;
    va_start(list, command);
    long argument = va_arg(list, long);
    va_end(list);
    if (fan_is_parked(fd))
        return (int)fan_answer(-EBADF);
    struct fan_file *file = fan_file_get(fd);
    bool duplicates = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    if (file == NULL) {
        int got = REAL(fcntl)(fd, command, argument);
        if (duplicates && got >= 0)
            fan_file_remove(got); /* closed by a call that the library did not see */
        return got;
    }
    if (duplicates) {
        int to = fan_sys_fcntl(fd, command, argument);
        return to < 0 ? (int)fan_answer(to) : note_duplicate(fd, to);
    }
    if (file->kind == FAN_FILE_PATH && command == F_GETFL)
        return (int)atomic_load(&file->slot->status);
    if (file->kind == FAN_FILE_COPY && command == F_GETFL)
        return (int)fan_answer(fan_copy_status(fd, file));
    if (command == F_SETLKW || command == F_OFD_SETLKW)
        fan_cancel_point();
    if (file->kind != FAN_FILE_REGULAR)
        return (int)fan_answer(fan_sys_fcntl(fd, command, argument));
    return (int)fan_answer(fan_control(fd, file, command, argument));
}

enum { IOCTL_FICLONE = 0x40049409 };

FAN_EXPORT int ioctl(int fd, unsigned long request, ...)
{
    va_list list;
    va_start(list, request);
    void *argument = va_arg(list, void *);
    va_end(list);
    struct fan_file *file = fan_regular(fd);
    if (file != NULL)
        return (int)fan_answer(fan_device_control(fd, file, request, argument));
    if (request == IOCTL_FICLONE && fan_is_placeholder(fan_file_get((int)(intptr_t)argument)))
        return (int)fan_answer(-EXDEV);
    return REAL(ioctl)(fd, request, argument);
}

FAN_EXPORT int isatty(int fd)
{
    if (fan_regular(fd) == NULL)
        return REAL(isatty)(fd);
    errno = ENOTTY;
    return 0;
}

FAN_EXPORT int ttyname_r(int fd, char *buffer, size_t bytes)
{
    return fan_regular(fd) != NULL ? ENOTTY : REAL(ttyname_r)(fd, buffer, bytes);
}

FAN_EXPORT int flock(int fd, int operation)
{
    if (!fan_is_placeholder(fan_file_get(fd)))
        return REAL(flock)(fd, operation);
    switch (operation & ~LOCK_NB) {
    case LOCK_SH:
    case LOCK_EX:
    case LOCK_UN:
        return fan_regular(fd) != NULL ? 0 : (int)fan_answer(-EBADF);
    default:
        return (int)fan_answer(-EINVAL);
    }
}

FAN_EXPORT int lockf(int fd, int command, off_t bytes)
{
    if (fan_regular(fd) == NULL)
        return REAL(lockf)(fd, command, bytes);
    if (command == F_LOCK)
        fan_cancel_point();
    const bool known = command == F_ULOCK || command == F_TEST;
    const bool writes = command == F_LOCK || command == F_TLOCK;
    return (int)fan_answer(known ? 0 : writes ? -EBADF : -EINVAL);
}

/* Makes a cancellation point of a call that has nothing to do for our file, as libc does. */
static int nothing_to_do(int rc)
{
    fan_cancel_point();
    return (int)fan_answer(rc);
}

FAN_EXPORT int fsync(int fd)
{
    return fan_regular(fd) != NULL ? nothing_to_do(0) : REAL(fsync)(fd);
}

FAN_EXPORT int fdatasync(int fd)
{
    return fan_regular(fd) != NULL ? nothing_to_do(0) : REAL(fdatasync)(fd);
}

FAN_EXPORT int syncfs(int fd)
{
    return fan_regular(fd) != NULL ? 0 : REAL(syncfs)(fd);
}

FAN_EXPORT int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags)
{
    if (fan_regular(fd) == NULL)
        return REAL(sync_file_range)(fd, offset, bytes, flags);
    const unsigned known = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                           SYNC_FILE_RANGE_WAIT_AFTER;
    return nothing_to_do(offset < 0 || bytes < 0 || flags & ~known ? -EINVAL : 0);
}

FAN_EXPORT int posix_fadvise(int fd, off_t offset, off_t bytes, int advice)
{
    struct fan_file *file = fan_regular(fd);
    if (file == NULL)
        return REAL(posix_fadvise)(fd, offset, bytes, advice);
    if (advice < POSIX_FADV_NORMAL || advice > POSIX_FADV_NOREUSE || bytes < 0)
        return EINVAL;
    if (advice == POSIX_FADV_WILLNEED)
        fan_hint(file, offset, bytes);
    return 0;
}

FAN_EXPORT ssize_t readahead(int fd, off64_t offset, size_t bytes)
{
    struct fan_file *file = fan_regular(fd);
    if (file == NULL)
        return REAL(readahead)(fd, offset, bytes);
    if ((off64_t)bytes < 0)
        return fan_answer(-EINVAL);
    fan_hint(file, offset, (off64_t)bytes);
    return 0;
}

FAN_EXPORT int ftruncate(int fd, off_t bytes)
{
    return fan_regular(fd) != NULL ? (int)fan_answer(-EINVAL) : REAL(ftruncate)(fd, bytes);
}

FAN_EXPORT int fallocate(int fd, int mode, off_t offset, off_t bytes)
{
    return fan_regular(fd) != NULL ? nothing_to_do(-EBADF)
                                   : REAL(fallocate)(fd, mode, offset, bytes);
}

FAN_EXPORT int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    return fan_regular(fd) != NULL ? EBADF : REAL(posix_fallocate)(fd, offset, bytes);
}

/* Returns whether one of the entries is a regular file of ours, which is always ready. The kernel
 * must not see it, because a placeholder cannot be polled. */
static bool any_regular(const struct pollfd *fds, nfds_t count)
{
    for (nfds_t i = 0; fan_job.view_count > 0 && i < count; i++) {
        if (fds[i].fd >= 0 && fan_regular(fds[i].fd) != NULL)
            return true;
    }
    return false;
}

/* Hides the entries of our files from the kernel. Returns how many are ready. */
static int hide(struct pollfd *fds, nfds_t count)
{
    const short all = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
    int ready = 0;
    for (nfds_t i = 0; i < count; i++) {
        if (fds[i].fd >= 0 && fan_regular(fds[i].fd) != NULL) {
            fds[i].fd ^= INT_MIN; /* the kernel ignores negative descriptors */
            ready += (fds[i].events & all) != 0;
        }
    }
    return ready;
}

static void show(struct pollfd *fds, nfds_t count)
{
    const short all = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;
    for (nfds_t i = 0; i < count; i++) {
        int fd = fds[i].fd ^ INT_MIN;
        if (fds[i].fd < 0 && fan_regular(fd) != NULL) {
            fds[i].fd = fd;
            fds[i].revents = fds[i].events & all;
        }
    }
}

struct polled {
    struct pollfd *fds;
    nfds_t count;
};

static void show_all(void *polled)
{
    const struct polled *all = polled;
    show(all->fds, all->count);
}

/* Waits with the hidden entries, then shows them. The array is the program's, so it is restored
 * even if the thread is cancelled while it waits. */
static int wait_and_show(struct polled *all, const struct timespec *timeout, const sigset_t *mask)
{
    int got;
    pthread_cleanup_push(show_all, all);
    got = REAL(ppoll)(all->fds, all->count, timeout, mask);
    pthread_cleanup_pop(1);
    return got;
}

static int poll_mixed(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                      const sigset_t *mask)
{
    static const struct timespec none = {0, 0};
    struct polled all = {fds, count};
    int ready = hide(fds, count);
    int got = wait_and_show(&all, ready > 0 ? &none : timeout, mask);
    return got < 0 ? got : got + ready;
}

FAN_EXPORT int poll(struct pollfd *fds, nfds_t count, int timeout)
{
    if (!any_regular(fds, count))
        return REAL(poll)(fds, count, timeout);
    struct timespec time = {timeout / 1000, timeout % 1000 * 1000000L};
    return poll_mixed(fds, count, timeout < 0 ? NULL : &time, NULL);
}

FAN_EXPORT int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
                     const sigset_t *mask)
{
    return any_regular(fds, count) ? poll_mixed(fds, count, timeout, mask)
                                   : REAL(ppoll)(fds, count, timeout, mask);
}

/* Moves our files from a set to `ours`. Returns how many there were. */
static int take_out(int count, fd_set *set, fd_set *ours)
{
    int taken = 0;
    FD_ZERO(ours);
    for (int fd = 0; set != NULL && fd < count; fd++) {
        if (FD_ISSET(fd, set) && fan_regular(fd) != NULL) {
            FD_CLR(fd, set);
            FD_SET(fd, ours);
            taken++;
        }
    }
    return taken;
}

static void put_back(int count, fd_set *set, const fd_set *ours)
{
    for (int fd = 0; set != NULL && fd < count; fd++) {
        if (FD_ISSET(fd, ours))
            FD_SET(fd, set);
    }
}

FAN_EXPORT int pselect(int count, fd_set *reads, fd_set *writes, fd_set *excepts,
                       const struct timespec *timeout, const sigset_t *mask)
{
    static const struct timespec none = {0, 0};
    fd_set our_reads, our_writes, our_excepts;
    if (fan_job.view_count == 0 || count > FD_SETSIZE)
        return REAL(pselect)(count, reads, writes, excepts, timeout, mask);
    int ready = take_out(count, reads, &our_reads) + take_out(count, writes, &our_writes);
    take_out(count, excepts, &our_excepts); /* no file has exceptional conditions */
    int got = REAL(pselect)(count, reads, writes, excepts, ready > 0 ? &none : timeout, mask);
    put_back(count, reads, &our_reads);
    put_back(count, writes, &our_writes);
    if (got < 0)
        put_back(count, excepts, &our_excepts); /* after an error the sets are as before */
    return got < 0 ? got : got + ready;
}

static bool any_in_set(int count, const fd_set *set)
{
    for (int fd = 0; set != NULL && fd < count; fd++) {
        if (FD_ISSET(fd, set) && fan_regular(fd) != NULL)
            return true;
    }
    return false;
}

FAN_EXPORT int select(int count, fd_set *reads, fd_set *writes, fd_set *excepts,
                      struct timeval *timeout)
{
    bool ours = fan_job.view_count > 0 && count <= FD_SETSIZE &&
                (any_in_set(count, reads) || any_in_set(count, writes) ||
                 any_in_set(count, excepts));
    if (!ours)
        return REAL(select)(count, reads, writes, excepts, timeout);
    struct timespec time;
    if (timeout != NULL)
        time = (struct timespec){timeout->tv_sec, timeout->tv_usec * 1000};
    return pselect(count, reads, writes, excepts, timeout != NULL ? &time : NULL, NULL);
}

FAN_EXPORT int epoll_ctl(int epoll, int operation, int fd, struct epoll_event *event)
{
    if (fan_is_placeholder(fan_file_get(fd)))
        return (int)fan_answer(-EPERM);
    return (int)fan_of_file(REAL(epoll_ctl)(epoll, operation, fd, event), epoll, EINVAL);
}
