/*
 * Calls for sockets, terminals, timers and watches that get a file of ours, and their errnos. The
 * kernel is asked first, and only the EBADF that a placeholder causes is replaced. Most of these
 * calls are rows of calls.def.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <termios.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../real.h"
#include "../undeclared.h"
#include "of_file.h"

/* The kernel's flags do not tell this of an input, whose placeholder is always open with O_PATH. */
bool fan_file_is_path(int fd, const struct fan_file *file)
{
    if (file != NULL && fan_file_is_directory(file))
        return fan_directory_is_path(file);
    if (file != NULL && (file->kind == FAN_FILE_REGULAR || file->kind == FAN_FILE_PATH))
        return file->kind == FAN_FILE_PATH;
    long flags = fan_sys_fcntl(fd, F_GETFL, 0);
    return flags >= 0 && flags & O_PATH;
}

/* Replaces EBADF in a result that is an error number. */
static int code_of_file(int code, int fd, int error)
{
    return code == EBADF && fan_regular(fd) != NULL ? error : code;
}

/* Calls a function with arguments of any type: they are passed in registers, and an int result is
 * in the lower half of one. */
static inline __attribute__((always_inline)) long
of_file(enum fan_real_index index, int error, long a, long b, long c, long d, long e, long f)
{
    long (*real)(long, long, long, long, long, long) = fan_real_call(index);
    return fan_of_file(real(a, b, c, d, e, f), (int)a, error);
}

#define FAN_ERRNO_OF_FILE(name, error)                                                             \
    long fan_of_file_##name(long a, long b, long c, long d, long e, long f) __asm__(#name);        \
    FAN_EXPORT long fan_of_file_##name(long a, long b, long c, long d, long e, long f)             \
    {                                                                                              \
        return of_file(FAN_REAL_##name, error, a, b, c, d, e, f);                                  \
    }
#include "../calls.def"

FAN_EXPORT char *ttyname(int fd)
{
    char *name = REAL(ttyname)(fd);
    fan_of_file(name != NULL ? 0 : -1, fd, ENOTTY);
    return name;
}

FAN_EXPORT char *ptsname(int fd)
{
    char *name = REAL(ptsname)(fd);
    fan_of_file(name != NULL ? 0 : -1, fd, ENOTTY);
    return name;
}

FAN_EXPORT int ptsname_r(int fd, char *buffer, size_t bytes)
{
    return code_of_file(REAL(ptsname_r)(fd, buffer, bytes), fd, ENOTTY);
}

/* Makes the system call itself if libc is too old for it. */
FAN_EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most,
                            const struct timespec *timeout, const sigset_t *mask)
{
    __typeof__(&epoll_pwait2) real = REAL(epoll_pwait2);
    long rc = real != NULL
                  ? real(fd, events, most, timeout, mask)
                  : fan_answer(FAN_SYS(epoll_pwait2, fd, events, most, timeout, mask, _NSIG / 8));
    return (int)fan_of_file(rc, fd, EINVAL);
}

/* tee(2) fails if either side is a file, but first if the second cannot be written. */
FAN_EXPORT ssize_t tee(int fd, int out, size_t bytes, unsigned flags)
{
    ssize_t moved = REAL(tee)(fd, out, bytes, flags);
    if (moved < 0 && errno == EBADF && fan_regular(fd) != NULL) {
        int mode = fcntl(out, F_GETFL);
        errno = mode >= 0 && (mode & O_ACCMODE) != O_RDONLY ? EINVAL : EBADF;
    }
    return moved;
}

FAN_EXPORT int isfdtype(int fd, int type)
{
    struct stat st;
    return fstat(fd, &st) != 0 ? -1 : (st.st_mode & S_IFMT) == (mode_t)type;
}
