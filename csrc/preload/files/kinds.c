/*
 * Calls for sockets, terminals, timers and watches, given a file: what they answer of one. The
 * kernel is asked first; only the EBADF that a placeholder makes is looked at again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
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

/* What the real call said as an error number. */
static int code_of_file(int code, int fd, int error)
{
    return code == EBADF && fan_regular(fd) != NULL ? error : code;
}

#define OF_FILE(type, error, name, parameters, arguments)                                          \
    FAN_EXPORT type name parameters                                                                \
    {                                                                                              \
        return (type)fan_of_file(REAL(name) arguments, fd, error);                                 \
    }

OF_FILE(int, ENOTSOCK, accept, (int fd, struct sockaddr *address, socklen_t *bytes),
        (fd, address, bytes))
OF_FILE(int, ENOTSOCK, accept4, (int fd, struct sockaddr *address, socklen_t *bytes, int flags),
        (fd, address, bytes, flags))
OF_FILE(int, ENOTSOCK, getsockopt, (int fd, int level, int name, void *value, socklen_t *bytes),
        (fd, level, name, value, bytes))
OF_FILE(int, ENOTSOCK, setsockopt,
        (int fd, int level, int name, const void *value, socklen_t bytes),
        (fd, level, name, value, bytes))
OF_FILE(int, ENOTSOCK, listen, (int fd, int backlog), (fd, backlog))
OF_FILE(int, ENOTSOCK, shutdown, (int fd, int how), (fd, how))
OF_FILE(int, ENOTTY, sockatmark, (int fd), (fd))
OF_FILE(ssize_t, ENOTSOCK, recv, (int fd, void *data, size_t bytes, int flags),
        (fd, data, bytes, flags))
OF_FILE(ssize_t, ENOTSOCK, recvfrom,
        (int fd, void *data, size_t bytes, int flags, struct sockaddr *from, socklen_t *length),
        (fd, data, bytes, flags, from, length))
OF_FILE(ssize_t, ENOTSOCK, send, (int fd, const void *data, size_t bytes, int flags),
        (fd, data, bytes, flags))

FAN_ALIAS(__send, send);

OF_FILE(ssize_t, ENOTSOCK, sendto,
        (int fd, const void *data, size_t bytes, int flags, const struct sockaddr *to,
         socklen_t length),
        (fd, data, bytes, flags, to, length))

FAN_EXPORT ssize_t __recv_chk(int fd, void *data, size_t bytes, size_t room, int flags)
{
    if (bytes > room)
        __chk_fail();
    return recv(fd, data, bytes, flags);
}

FAN_EXPORT ssize_t __recvfrom_chk(int fd, void *data, size_t bytes, size_t room, int flags,
                                  struct sockaddr *from, socklen_t *length)
{
    if (bytes > room)
        __chk_fail();
    return recvfrom(fd, data, bytes, flags, from, length);
}

OF_FILE(int, ENOTTY, tcsetattr, (int fd, int when, const struct termios *settings),
        (fd, when, settings))
OF_FILE(int, ENOTTY, tcflush, (int fd, int queue), (fd, queue))
OF_FILE(int, ENOTTY, tcflow, (int fd, int action), (fd, action))
OF_FILE(int, ENOTTY, tcdrain, (int fd), (fd))
OF_FILE(int, ENOTTY, tcsendbreak, (int fd, int duration), (fd, duration))
OF_FILE(pid_t, ENOTTY, tcgetpgrp, (int fd), (fd))
OF_FILE(int, ENOTTY, tcsetpgrp, (int fd, pid_t group), (fd, group))
OF_FILE(pid_t, ENOTTY, tcgetsid, (int fd), (fd))
OF_FILE(int, EINVAL, grantpt, (int fd), (fd))
OF_FILE(int, EINVAL, unlockpt, (int fd), (fd))

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

FAN_EXPORT int __ptsname_r_chk(int fd, char *buffer, size_t bytes, size_t room)
{
    if (bytes > room)
        __chk_fail();
    return ptsname_r(fd, buffer, bytes);
}

FAN_EXPORT int __ttyname_r_chk(int fd, char *buffer, size_t bytes, size_t room)
{
    if (bytes > room)
        __chk_fail();
    return ttyname_r(fd, buffer, bytes);
}

OF_FILE(int, EINVAL, timerfd_gettime, (int fd, struct itimerspec *value), (fd, value))
OF_FILE(int, EINVAL, timerfd_settime,
        (int fd, int flags, const struct itimerspec *value, struct itimerspec *old),
        (fd, flags, value, old))
OF_FILE(int, EINVAL, signalfd, (int fd, const sigset_t *mask, int flags), (fd, mask, flags))
OF_FILE(int, EINVAL, setns, (int fd, int kind), (fd, kind))
OF_FILE(int, EINVAL, epoll_wait, (int fd, struct epoll_event *events, int most, int timeout),
        (fd, events, most, timeout))
OF_FILE(int, EINVAL, epoll_pwait,
        (int fd, struct epoll_event *events, int most, int timeout, const sigset_t *mask),
        (fd, events, most, timeout, mask))

/* Newer than some libc's: made directly there. */
FAN_EXPORT int epoll_pwait2(int fd, struct epoll_event *events, int most,
                            const struct timespec *timeout, const sigset_t *mask)
{
    __typeof__(&epoll_pwait2) real = REAL(epoll_pwait2);
    long rc = real != NULL ? real(fd, events, most, timeout, mask)
                           : fan_answer(FAN_SYS(epoll_pwait2, fd, events, most, timeout, mask,
                                                _NSIG / 8));
    return (int)fan_of_file(rc, fd, EINVAL);
}

/* Neither side of a tee(2) may be a file; whether the second can be written is looked at first. */
FAN_EXPORT ssize_t tee(int fd, int out, size_t bytes, unsigned flags)
{
    ssize_t moved = REAL(tee)(fd, out, bytes, flags);
    if (moved < 0 && errno == EBADF && fan_regular(fd) != NULL) {
        int mode = fcntl(out, F_GETFL);
        errno = mode >= 0 && (mode & O_ACCMODE) != O_RDONLY ? EINVAL : EBADF;
    }
    return moved;
}

/* libc reads and looks inside, past us. */
FAN_EXPORT int eventfd_read(int fd, eventfd_t *value)
{
    return read(fd, value, sizeof(*value)) == sizeof(*value) ? 0 : -1;
}

FAN_EXPORT int isfdtype(int fd, int type)
{
    struct stat st;
    return fstat(fd, &st) != 0 ? -1 : (st.st_mode & S_IFMT) == (mode_t)type;
}
