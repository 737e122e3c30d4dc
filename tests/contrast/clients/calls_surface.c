/* Calls that are rarely made: of other kinds of descriptors, and those that libc answers inside. */
#include "calls.h"

#include <aio.h>
#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/signalfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <termios.h>
#include <wchar.h>

int isfdtype(int fd, int type);
ssize_t getdirentries64(int fd, char *buffer, size_t bytes, off_t *base);
int pivot_root(const char *root, const char *old);

CASE(socket_calls_on_a_file)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof(address);
    struct sockaddr *name = (struct sockaddr *) &address;
    char data[10];
    int fd = reader("small"), value = 0;
    struct msghdr message = {0};
    struct mmsghdr messages[2] = {0};
    TELL(accept(fd, NULL, NULL));
    TELL(accept4(fd, NULL, NULL, 0));
    TELL(getpeername(fd, name, &bytes));
    TELL(getsockname(fd, name, &bytes));
    bytes = sizeof(value);
    TELL(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &bytes));
    TELL(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &value, sizeof(value)));
    TELL(listen(fd, 1));
    TELL(shutdown(fd, SHUT_RD));
    TELL(recv(fd, data, 10, 0));
    TELL(recvfrom(fd, data, 10, 0, NULL, NULL));
    TELL(recvmsg(fd, &message, 0));
    TELL(recvmmsg(fd, messages, 2, 0, NULL));
    TELL(send(fd, data, 10, 0));
    TELL(sendto(fd, data, 10, 0, NULL, 0));
    TELL(sendmsg(fd, &message, 0));
    TELL(sendmmsg(fd, messages, 2, 0));
    TELL(connect(fd, name, 2));
    TELL(bind(fd, name, 2));
    TELL(isfdtype(fd, S_IFSOCK));
    TELL(isfdtype(fd, S_IFREG));
    TELL(getpeername(999, name, &bytes));
    TELL(listen(open(in_r("small"), O_PATH), 1));
}

CASE(terminal_calls_on_a_file)
{
    struct termios settings = {0};
    int fd = reader("small");
    char name[100];
    TELL(isatty(fd));
    TELL(tcgetattr(fd, &settings));
    TELL(tcsetattr(fd, TCSANOW, &settings));
    TELL(tcsetattr(fd, 77, &settings));
    TELL(tcflush(fd, TCIFLUSH));
    TELL(tcflow(fd, TCOON));
    TELL(tcdrain(fd));
    TELL(tcsendbreak(fd, 0));
    TELL(tcgetpgrp(fd));
    TELL(tcsetpgrp(fd, getpid()));
    TELL(tcgetsid(fd));
    TELL_POINTER(ttyname(fd));
    TELL_CODE(ttyname_r(fd, name, sizeof(name)));
    TELL_POINTER(ptsname(fd));
    TELL_CODE(ptsname_r(fd, name, sizeof(name)));
    TELL(grantpt(fd));
    TELL(unlockpt(fd));
    TELL(isatty(999));
    TELL(tcgetpgrp(999));
}

CASE(other_calls_on_a_file)
{
    int fd = reader("small"), pipes[2];
    struct itimerspec timer = {0};
    struct epoll_event event = {0};
    sigset_t mask;
    eventfd_t value = 0;
    sigemptyset(&mask);
    OK(pipe(pipes) == 0);
    TELL(timerfd_gettime(fd, &timer));
    TELL(timerfd_settime(fd, 0, &timer, NULL));
    TELL(signalfd(fd, &mask, 0));
    TELL(epoll_wait(fd, &event, 1, 0));
    TELL(epoll_pwait(fd, &event, 1, 0, NULL));
    TELL(epoll_ctl(fd, EPOLL_CTL_ADD, pipes[0], &event));
    TELL(epoll_ctl(fd, EPOLL_CTL_ADD, fd, &event));
    TELL(inotify_add_watch(fd, "/", IN_MODIFY));
    TELL(inotify_rm_watch(fd, 1));
    TELL(eventfd_read(fd, &value));
    SHOW("%.8s", (char *) &value);
    TELL(eventfd_read(fd, &value));
    TELL(eventfd_write(fd, 1));
    TELL(tee(fd, pipes[1], 10, 0));
    TELL(tee(pipes[0], fd, 10, 0));
    TELL(tee(fd, fd, 10, 0));
    TELL(tee(fd, 999, 10, 0));
    struct { void *base; size_t bytes; } part = {&value, 8};
    TELL(vmsplice(fd, (void *) &part, 1, 0));
    TELL(vmsplice(pipes[1], (void *) &part, 1, 0));
}

static struct aiocb block_of(int fd, void *buffer, size_t bytes, off_t offset)
{
    struct aiocb block = {.aio_fildes = fd, .aio_buf = buffer, .aio_nbytes = bytes};
    block.aio_offset = offset;
    block.aio_lio_opcode = LIO_READ;
    block.aio_sigevent.sigev_notify = SIGEV_NONE;
    return block;
}

static void wait_for(struct aiocb *block)
{
    const struct aiocb *list[] = {block};
    while (aio_error(block) == EINPROGRESS) {
        aio_suspend(list, 1, NULL);
    }
    int code = aio_error(block);
    ssize_t got = aio_return(block);
    SHOW("%s: %zd %lx", strerrorname_np(code), got,
         got > 0 ? sum((void *) block->aio_buf, got) : 0);
}

CASE(aio_reads)
{
    char buffer[5000];
    const char *names[] = {"small", "mid.bin", "lines", "empty", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        int fd = reader(names[i]);
        for (off_t offset = 0; offset < 9000; offset += 3000) {
            struct aiocb block = block_of(fd, buffer, sizeof(buffer), offset);
            TELL(aio_read(&block));
            wait_for(&block);
        }
        TELL(lseek(fd, 0, SEEK_CUR));
        struct aiocb block = block_of(fd, buffer, 10, -5);
        TELL(aio_read(&block));
        wait_for(&block);
        block = block_of(fd, buffer, 10, 0);
        TELL(aio_write(&block));
        wait_for(&block);
        TELL(aio_cancel(fd, NULL));
        block.aio_reqprio = -1;
        TELL(aio_read(&block));
    }
}

static volatile int signals, value_seen;

static void on_signal(int number, siginfo_t *info, void *context)
{
    signals++;
    value_seen = info->si_value.sival_int * 10 + (info->si_code == SI_ASYNCIO);
}

static void on_thread(union sigval value)
{
    value_seen = value.sival_int;
    signals++;
}

static void wait_signals(int count)
{
    for (int i = 0; i < 2000 && signals < count; i++) {
        usleep(1000);
    }
    SHOW("signals %d value %d", signals, value_seen);
}

CASE(aio_notifies)
{
    char buffer[100];
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    OK(sigaction(SIGUSR1, &action, NULL) == 0);
    struct aiocb block = block_of(reader("small"), buffer, 100, 0);
    block.aio_sigevent.sigev_notify = SIGEV_SIGNAL;
    block.aio_sigevent.sigev_signo = SIGUSR1;
    block.aio_sigevent.sigev_value.sival_int = 7;
    TELL(aio_read(&block));
    wait_signals(1);
    wait_for(&block);
    block.aio_sigevent.sigev_notify = SIGEV_THREAD;
    block.aio_sigevent.sigev_notify_function = on_thread;
    block.aio_sigevent.sigev_notify_attributes = NULL;
    TELL(aio_read(&block));
    wait_signals(2);
}

CASE(aio_lists)
{
    char one[100], two[100], three[100];
    int out = open(in_w("out"), O_RDWR | O_CREAT, 0644);
    struct aiocb a = block_of(reader("small"), one, 100, 0);
    struct aiocb b = block_of(out, "written", 7, 0), c = block_of(reader("lines"), three, 100, 50);
    b.aio_lio_opcode = LIO_WRITE;
    struct aiocb *list[] = {&a, NULL, &b, &c};
    TELL(lio_listio(LIO_WAIT, list, 4, NULL));
    wait_for(&a);
    wait_for(&b);
    wait_for(&c);
    a.aio_offset = -1;
    TELL(lio_listio(LIO_WAIT, list, 4, NULL));
    a.aio_offset = 2;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_thread};
    event.sigev_value.sival_int = 3;
    TELL(lio_listio(LIO_NOWAIT, list, 4, &event));
    wait_signals(1);
    wait_for(&a);
    TELL(lio_listio(77, list, 4, NULL));
}

CASE(ftok_of_files)
{
    struct stat status;
    OK(stat(in_r("small"), &status) == 0);
    key_t key = ftok(in_r("small"), 0x141);
    SHOW("%d", key == (key_t) ((status.st_ino & 0xffff) | ((status.st_dev & 0xff) << 16) | (0x41 << 24)));
    SHOW("%d", key == ftok(in_r("to_file"), 0x41));
    SHOW("%d", key != ftok(in_r("lines"), 0x41));
    TELL(ftok(in_r("none"), 1));
}

CASE(getwd_and_others)
{
    char here[PATH_MAX];
    OK(chdir(in_r("sub/deep")) == 0);
    SHOW("%s", getwd(here));
    SHOW("%s", getcwd(here, sizeof(here)));
}

CASE(getdirentries_call)
{
    char buffer[32768];
    off_t base = -1;
    int fd = open(in_r("many"), O_RDONLY | O_DIRECTORY), names = 0, calls = 0;
    for (ssize_t got; (got = getdirentries64(fd, buffer, 1024, &base)) > 0; calls++) {
        OK(calls > 0 || base == 0);
        for (ssize_t at = 0; at < got; names++) {
            at += ((struct dirent64 *) (buffer + at))->d_reclen;
        }
    }
    SHOW("%d names, more than one call %d", names, calls > 1);
    TELL(getdirentries64(reader("small"), buffer, 1024, &base));
}

CASE(names_that_are_free)
{
    char template[PATH_MAX];
    snprintf(template, sizeof(template), "%s/tXXXXXX", getenv("D"));
    SHOW("%d", strlen(mktemp(template)) == strlen(getenv("D")) + 8);
    TELL(access(template, F_OK));
    put(template, "x");
    TELL(unlink(template));
    strcpy(template, "bad");
    SHOW("'%s'", mktemp(template));
    OK(unlink(mktemp(strcpy(template, in_d("none")))) != 0);
}

FILE *_IO_fopen(const char *path, const char *mode);
int _IO_fclose(FILE *file);
int __statfs(const char *path, struct statfs *status);
int __select(int count, fd_set *reads, fd_set *writes, fd_set *excepts, struct timeval *timeout);

CASE(names_of_old_programs)
{
    char buffer[20] = {0};
    FILE *file = _IO_fopen(in_r("small"), "r");
    SHOW("%s", fgets(buffer, sizeof(buffer), file));
    fd_set reads;
    FD_ZERO(&reads);
    FD_SET(fileno(file), &reads);
    TELL(__select(fileno(file) + 1, &reads, NULL, NULL, NULL));
    TELL(_IO_fclose(file));
    struct statfs status;
    TELL(__statfs(in_r("small"), &status));
    TELL(__statfs(in_r("none"), &status));
}

CASE(messages_that_hand_over_files)
{
    int pair[2];
    OK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
    char control[CMSG_SPACE(sizeof(int))] = {0}, text[4] = "abc", got[100];
    struct { void *base; size_t bytes; } part = {text, 3};
    struct mmsghdr messages[2] = {0};
    int fd = reader("small");
    OK(lseek(fd, 6, SEEK_SET) == 6);
    for (int i = 0; i < 2; i++) {
        messages[i].msg_hdr.msg_iov = (void *) &part;
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    messages[1].msg_hdr.msg_control = control;
    messages[1].msg_hdr.msg_controllen = sizeof(control);
    struct cmsghdr *head = CMSG_FIRSTHDR(&messages[1].msg_hdr);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof(fd));
    TELL(sendmmsg(pair[0], messages, 2, 0));
    SHOW("%u %u", messages[0].msg_len, messages[1].msg_len);
    OK(recv(pair[1], got, 100, 0) == 3);
    part.base = got;
    OK(recvmsg(pair[1], &messages[1].msg_hdr, 0) == 3);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&messages[1].msg_hdr)), sizeof(fd));
    show_next("handed over", fd);
}

CASE(pages_given_back_come_again)
{
    const char *names[] = {"small", "page1.bin", "lines", "big.bin", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        struct stat status;
        int fd = reader(names[i]);
        OK(fstat(fd, &status) == 0);
        char *at = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        unsigned long before = sum(at, status.st_size);
        at[0] ^= 1;
        TELL(madvise(at, status.st_size, MADV_DONTNEED));
        SHOW("%d", sum(at, status.st_size) == before);
        TELL(madvise(at, status.st_size, MADV_FREE));
        TELL(madvise(at, status.st_size, MADV_REMOVE));
        char *shared = mmap(NULL, status.st_size, PROT_READ, MAP_SHARED, fd, 0);
        TELL(madvise(shared, status.st_size, MADV_DONTNEED));
        SHOW("%d", sum(shared, status.st_size) == before);
        TELL(mprotect(shared, 4096, PROT_READ | PROT_WRITE));
    }
}

CASE(maps_that_move)
{
    struct stat status;
    const char *names[] = {"page1.bin", "mid.bin", "big.bin", "lines", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        int fd = reader(names[i]);
        OK(fstat(fd, &status) == 0);
        char *room = mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        char *at = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        at[5] = 'w';
        at = mremap(at, status.st_size, status.st_size, MREMAP_MAYMOVE | MREMAP_FIXED, room);
        SHOW("%s %d %lx", names[i], at == room, at == room ? sum(at, status.st_size) : 0);
    }
}
