/* fcntl with all of its commands, locks, leases, ioctl, terminals. */
#include "calls.h"

#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <termios.h>

#ifndef F_GET_RW_HINT
#define F_GET_RW_HINT 1035
#define F_SET_RW_HINT 1036
#endif

CASE(dupfd)
{
    int fd = reader("small");
    TELL(fcntl(fd, F_DUPFD, 60));
    TELL(fcntl(fd, F_DUPFD, 60));
    TELL(fcntl(60, F_GETFD));
    TELL(fcntl(fd, F_DUPFD_CLOEXEC, 70));
    TELL(fcntl(70, F_GETFD));
    TELL(fcntl(fd, F_DUPFD, 0) - fd);
    TELL(fcntl(fd, F_DUPFD, -1));
    TELL(fcntl(fd, F_DUPFD, 1 << 30));
    TELL(fcntl(999, F_DUPFD, 0));
    show_next("sixty", 60);
    show_next("seventy", 70);
}

CASE(getfd_and_setfd)
{
    int fd = reader("small");
    TELL(fcntl(fd, F_SETFD, FD_CLOEXEC));
    TELL(fcntl(fd, F_GETFD));
    TELL(fcntl(fd, F_SETFD, 0));
    TELL(fcntl(fd, F_GETFD));
    TELL(fcntl(fd, F_SETFD, 0xff));
    TELL(fcntl(fd, F_GETFD));
}

CASE(getfl_and_setfl)
{
    int fd = reader("small");
    SHOW("%x", fcntl(fd, F_GETFL));
    const int flags[] = {O_NONBLOCK, O_APPEND, O_NOATIME, O_NONBLOCK | O_APPEND, O_CREAT | O_TRUNC, O_RDWR, O_WRONLY | O_NONBLOCK, 0};
    for (int i = 0; i < 8; i++) {
        errno = 0;
        int code = fcntl(fd, F_SETFL, flags[i]);
        SHOW("%x: %d %s %x", flags[i], code, strerrorname_np(errno), fcntl(fd, F_GETFL));
    }
    show_next("reads", fd);
}

CASE(setfl_async_and_direct)
{
    int fd = reader("small");
    TELL(fcntl(fd, F_SETFL, O_ASYNC));
    SHOW("%x", fcntl(fd, F_GETFL));
    TELL(fcntl(fd, F_SETFL, 0));
    SHOW("%x", fcntl(fd, F_GETFL));
}

CASE(setfl_is_of_the_description)
{
    int fd = reader("small"), other = dup(fd), apart = reader("small");
    TELL(fcntl(fd, F_SETFL, O_NONBLOCK));
    SHOW("%x %x", fcntl(other, F_GETFL), fcntl(apart, F_GETFL));
}

static void show_lock(const char *label, int fd, int command, int type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 2, .l_len = 5};
    errno = 0;
    int code = fcntl(fd, command, &lock);
    SHOW("%s: %d %s type %d start %ld length %ld pid %d", label, code, strerrorname_np(errno), lock.l_type,
         (long) lock.l_start, (long) lock.l_len, lock.l_pid);
}

CASE(getlk)
{
    int fd = reader("small");
    show_lock("read", fd, F_GETLK, F_RDLCK);
    show_lock("write", fd, F_GETLK, F_WRLCK);
    show_lock("none", fd, F_GETLK, F_UNLCK);
    show_lock("nonsense", fd, F_GETLK, 9);
    show_lock("ofd", fd, F_OFD_GETLK, F_RDLCK);
    TELL(fcntl(fd, F_GETLK, (void *) 16));
}

CASE(setlk)
{
    int fd = reader("small");
    show_lock("read", fd, F_SETLK, F_RDLCK);
    show_lock("read wait", fd, F_SETLKW, F_RDLCK);
    show_lock("write", fd, F_SETLK, F_WRLCK);
    show_lock("write wait", fd, F_SETLKW, F_WRLCK);
    show_lock("free", fd, F_SETLK, F_UNLCK);
    show_lock("nonsense", fd, F_SETLK, 9);
    struct flock bad = {.l_type = F_RDLCK, .l_whence = 77};
    TELL(fcntl(fd, F_SETLK, &bad));
    bad = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = -5};
    TELL(fcntl(fd, F_SETLK, &bad));
    TELL(fcntl(fd, F_SETLK, (void *) 16));
}

CASE(ofd_locks)
{
    int fd = reader("small");
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
    TELL(fcntl(fd, F_OFD_SETLK, &lock));
    TELL(fcntl(fd, F_OFD_SETLKW, &lock));
    lock.l_type = F_WRLCK;
    TELL(fcntl(fd, F_OFD_SETLK, &lock));
    lock.l_pid = 5;
    TELL(fcntl(fd, F_OFD_GETLK, &lock));
    lock.l_pid = 0;
    lock.l_type = F_UNLCK;
    TELL(fcntl(fd, F_OFD_SETLK, &lock));
}

CASE(locks_of_outputs_exclude)
{
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    show_lock("write", fd, F_SETLK, F_WRLCK);
    IN_CHILD("child", show_lock("is refused", fd, F_SETLK, F_WRLCK);
             struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 3};
             OK(fcntl(fd, F_GETLK, &lock) == 0); SHOW("held by the parent %d", lock.l_pid == getppid()));
    show_lock("free", fd, F_SETLK, F_UNLCK);
    IN_CHILD("child", show_lock("has it", fd, F_SETLK, F_WRLCK));
}

CASE(flock_forms)
{
    int fd = reader("small");
    TELL(flock(fd, LOCK_SH));
    TELL(flock(fd, LOCK_SH | LOCK_NB));
    TELL(flock(fd, LOCK_EX));
    TELL(flock(fd, LOCK_EX | LOCK_NB));
    TELL(flock(fd, LOCK_UN));
    TELL(flock(fd, 0));
    TELL(flock(fd, 77));
    TELL(flock(-1, LOCK_SH));
    TELL(flock(open(in_r("small"), O_PATH), LOCK_SH));
    TELL(flock(open(in_r("sub"), O_RDONLY), LOCK_SH));
}

CASE(flock_of_outputs_excludes)
{
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    TELL(flock(fd, LOCK_EX));
    IN_CHILD("child", int other = open(in_d("f"), O_RDONLY); TELL(flock(other, LOCK_SH | LOCK_NB));
             TELL(flock(fd, LOCK_EX | LOCK_NB)));
    TELL(flock(fd, LOCK_UN));
}

CASE(lockf_forms)
{
    int fd = reader("small");
    TELL(lockf(fd, F_TEST, 0));
    TELL(lockf(fd, F_LOCK, 0));
    TELL(lockf(fd, F_TLOCK, 5));
    TELL(lockf(fd, F_ULOCK, 0));
    TELL(lockf(fd, 77, 0));
    TELL(lockf64(fd, F_TEST, 0));
    TELL(lockf(-1, F_TEST, 0));
}

CASE(leases)
{
    int fd = reader("small");
    TELL(fcntl(fd, F_GETLEASE));
    TELL(fcntl(fd, F_SETLEASE, F_UNLCK));
    TELL(fcntl(fd, F_SETLEASE, F_WRLCK) <= 0 ? 0 : 1);
    TELL(fcntl(fd, F_SETLEASE, 77));
}

CASE(seals_and_unknown_commands)
{
    int fd = reader("small");
    TELL(fcntl(fd, F_GET_SEALS));
    TELL(fcntl(fd, 9999));
    TELL(fcntl(-1, F_GETFL));
    TELL(fcntl(-1, 9999));
}

CASE(hints_of_outputs)
{
    unsigned long hint = 2;
    int fd = open(in_d("f"), O_RDWR | O_CREAT, 0644);
    TELL(fcntl(fd, F_SET_RW_HINT, &hint));
    hint = 99;
    TELL(fcntl(fd, F_GET_RW_HINT, &hint));
    SHOW("%lu", hint);
    TELL(close(fd));
}

CASE(fcntl_of_a_path_descriptor)
{
    struct flock lock = {.l_type = F_RDLCK};
    int fd = open(in_r("small"), O_PATH);
    TELL(fcntl(fd, F_GETFL));
    TELL(fcntl(fd, F_SETFL, 0));
    TELL(fcntl(fd, F_SETLK, &lock));
    TELL(fcntl(fd, F_GETLEASE));
    TELL(fcntl(fd, F_SETFD, FD_CLOEXEC));
    TELL(fcntl(fd, F_GETFD));
    TELL(fcntl(fd, F_DUPFD, 80));
    TELL(fcntl(80, F_GETFL));
}

CASE(fcntl_of_a_directory)
{
    struct flock lock = {.l_type = F_RDLCK};
    int fd = open(in_r("sub"), O_RDONLY | O_DIRECTORY);
    SHOW("%x", fcntl(fd, F_GETFL) & ~O_NOFOLLOW);
    TELL(fcntl(fd, F_SETFL, O_NONBLOCK));
    SHOW("%x", fcntl(fd, F_GETFL) & ~O_NOFOLLOW);
    TELL(fcntl(fd, F_SETLK, &lock));
    TELL(fcntl(fd, F_DUPFD_CLOEXEC, 90));
    TELL(openat(90, "inner", O_RDONLY) > 0 ? 0 : -1);
}

CASE(fionread)
{
    int fd = reader("small"), left = -5;
    TELL(ioctl(fd, FIONREAD, &left));
    SHOW("%d", left);
    TELL(lseek(fd, 7, SEEK_SET));
    TELL(ioctl(fd, FIONREAD, &left));
    SHOW("%d", left);
    TELL(lseek(fd, 100, SEEK_SET));
    TELL(ioctl(fd, FIONREAD, &left));
    SHOW("%d", left);
    TELL(ioctl(fd, FIONREAD, (void *) 16));
    TELL(ioctl(-1, FIONREAD, &left));
}

CASE(ioctl_flags_of_descriptors)
{
    int fd = reader("small"), on = 1, off = 0;
    TELL(ioctl(fd, FIOCLEX));
    TELL(fcntl(fd, F_GETFD));
    TELL(ioctl(fd, FIONCLEX));
    TELL(fcntl(fd, F_GETFD));
    TELL(ioctl(fd, FIONBIO, &on));
    SHOW("%x", fcntl(fd, F_GETFL) & O_NONBLOCK);
    TELL(ioctl(fd, FIONBIO, &off));
    SHOW("%x", fcntl(fd, F_GETFL) & O_NONBLOCK);
    TELL(ioctl(fd, FIONBIO, (void *) 16));
    TELL(ioctl(fd, FIOASYNC, &off));
}

CASE(ioctl_of_terminals)
{
    struct termios settings;
    struct winsize size;
    char name[100];
    int fd = reader("small");
    TELL(ioctl(fd, TCGETS, &settings));
    TELL(ioctl(fd, TIOCGWINSZ, &size));
    TELL(ioctl(fd, TIOCGPGRP, &size));
    TELL(tcgetattr(fd, &settings));
    TELL(tcsetattr(fd, TCSANOW, &settings));
    TELL(tcdrain(fd));
    TELL(tcflush(fd, TCIFLUSH));
    TELL(tcsendbreak(fd, 0));
    TELL(tcgetpgrp(fd));
    TELL(tcgetsid(fd));
    TELL(isatty(fd) == 0 ? -1 : 1);
    TELL_POINTER(ttyname(fd));
    TELL_CODE(ttyname_r(fd, name, sizeof(name)));
}

CASE(ioctl_of_file_systems)
{
    int fd = reader("small"), block = 0;
    long flags = 0;
    int code = ioctl(fd, FS_IOC_GETFLAGS, &flags);
    SHOW("flags %d", code == 0 || errno == ENOTTY || errno == EOPNOTSUPP);
    TELL(ioctl(fd, FIGETBSZ, &block));
    SHOW("%d", block > 0);
    code = ioctl(fd, FIBMAP, &block);
    SHOW("bmap %d", code == 0 || errno != EBADF);
    TELL(ioctl(fd, BLKGETSIZE64, &flags));
    TELL(ioctl(fd, 0xdeadbeef, &flags));
    TELL(ioctl(fd, FICLONE, reader("x")) == 0 ? 1 : -1);
}

CASE(isatty_of_everything)
{
    TELL(isatty(reader("small")) == 0 ? -1 : 1);
    TELL(isatty(open(in_r("sub"), O_RDONLY)) == 0 ? -1 : 1);
    TELL(isatty(open(in_d("f"), O_RDWR | O_CREAT, 0644)) == 0 ? -1 : 1);
    TELL(isatty(-1) == 0 ? -1 : 1);
    TELL(isatty(open(in_r("small"), O_PATH)) == 0 ? -1 : 1);
}

CASE(fchange_calls_of_a_reader)
{
    struct stat one, two;
    int fd = reader("small");
    OK(fstat(fd, &one) == 0);
    TELL(ftruncate(fd, 0));
    TELL(fallocate(fd, 0, 0, 1));
    OK(fstat(fd, &two) == 0);
    SHOW("same %d", one.st_size == two.st_size && one.st_mode == two.st_mode);
}

CASE(sockets_calls_of_a_file)
{
    char text[10];
    int fd = reader("small"), length = 4;
    TELL(recv(fd, text, 10, 0));
    TELL(send(fd, text, 10, 0));
    TELL(getsockname(fd, (struct sockaddr *) text, (socklen_t *) &length));
    TELL(getsockopt(fd, 1, 3, text, &length));
    TELL(listen(fd, 1));
    TELL(accept(fd, NULL, NULL));
    TELL(shutdown(fd, 2));
}
