#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../client/jobsocket.h"
#include "../client/park.h"
#include "../common/sys.h"
#include "family.h"
#include "filter.h"
#include "names.h"
#include "serve.h"
#include "tree.h"

struct supervisor {
    int news;      /* to the stand-in; -1: it has gone */
    int listener;  /* -1: everybody who was watched has gone */
    int signals;
    pid_t stand_in, command; /* 0: it has ended */
};

static void send_fd(int socket, int fd)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec vector = {"", 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof(control)};
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(part), &fd, sizeof(fd));
    FAN_SYS(sendmsg, socket, &message, 0);
}

/* A descriptor, or -1: the other side has gone. */
static int receive_fd(int socket)
{
    char control[CMSG_SPACE(sizeof(int))] __attribute__((aligned(8)));
    char byte;
    int fd;
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof(control)};
    long got;
    do {
        got = FAN_SYS(recvmsg, socket, &message, MSG_CMSG_CLOEXEC);
    } while (got == -EINTR);
    struct cmsghdr *part = got == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (part == NULL || part->cmsg_type != SCM_RIGHTS)
        return -1;
    memcpy(&fd, CMSG_DATA(part), sizeof(fd));
    return fd;
}

/* The command's process until it execs. It dies with the supervisor, without which it could open
 * nothing. */
static void __attribute__((noreturn)) become(char **argv, int news, int socket,
                                             const sigset_t *mask, pid_t parent)
{
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != parent)
        _exit(125);
    int listener = fan_filter_install();
    if (listener < 0) {
        fan_news_tell(news, FAN_NEWS_FAILED, -listener, "seccomp");
        _exit(125);
    }
    send_fd(socket, listener);
    FAN_SYS(close, listener);
    if (FAN_SYS(read, socket, &byte, 1) != 1)
        _exit(125);
    FAN_SYS(close, socket);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(argv[0], argv);
    fan_news_tell(news, FAN_NEWS_NOT_EXEC, errno, "");
    _exit(errno == ENOENT || errno == ENOTDIR ? 127 : 126);
}

static void __attribute__((noreturn)) fail(const struct supervisor *own, const char *step, int rc)
{
    fan_news_tell(own->news, FAN_NEWS_FAILED, -rc, step);
    fan_tree_end();
    _exit(125);
}

/* Keeps nothing of the command's: its streams, its directory, its descriptors. */
static void let_go(const struct supervisor *own, int socket)
{
    int null = fan_sys_openat(AT_FDCWD, "/dev/null", O_RDWR, 0);
    DIR *dir = opendir("/proc/self/fd");
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        int fd = atoi(entry->d_name);
        bool kept = fd == own->news || fd == own->signals || fd == socket || fd == dirfd(dir) ||
                    fd == null || fan_is_parked(fd);
        if (fd > 2 && !kept)
            FAN_SYS(close, fd);
    }
    if (dir != NULL)
        closedir(dir);
    for (int fd = 0; fd < 3 && null >= 0; fd++)
        FAN_SYS(dup3, null, fd, 0);
    FAN_SYS(chdir, "/");
}

/* Whether nobody is left who is watched. */
static bool alone(const struct supervisor *own)
{
    const struct timespec none = {0};
    struct pollfd polled = {.fd = own->listener};
    return own->listener < 0 || (FAN_SYS(ppoll, &polled, 1, &none, NULL, sizeof(uint64_t)) == 1 &&
                                 polled.revents & POLLHUP);
}

/* The command has ended; others of its family may go on. */
static void tell_end(struct supervisor *own, int status)
{
    own->command = 0;
    if (!alone(own)) {
        fan_news_tell(own->news, FAN_NEWS_ENDED, status, "");
        return;
    }
    fan_names_end();
    fan_tree_end();
    fan_news_tell(own->news, FAN_NEWS_LAST, status, "");
    _exit(0);
}

static void reap(struct supervisor *own)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
        if (pid != own->command)
            continue;
        if (WIFSTOPPED(status)) {
            fan_news_tell(own->news, FAN_NEWS_STOPPED, WSTOPSIG(status), "");
        } else if (WIFCONTINUED(status)) {
            kill(own->stand_in, SIGCONT);
        } else {
            tell_end(own, status);
        }
    }
}

/* The stand-in has gone: killed, where the command has not ended; that goes with it. */
static void lose_stand_in(struct supervisor *own)
{
    if (own->command > 0)
        kill(own->command, SIGKILL);
    fan_sys_close(own->news);
    own->news = -1;
}

static void witness(int signals)
{
    struct signalfd_siginfo info;
    while (FAN_SYS(read, signals, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo < _NSIG)
            atomic_store(&fan_witness->seen_ns[info.ssi_signo], fan_clock_ns());
    }
}

static void watch(struct supervisor *own)
{
    while (own->command > 0 || own->listener >= 0) {
        struct pollfd polled[3] = {{.fd = own->listener},
                                   {.fd = own->signals, .events = POLLIN},
                                   {.fd = own->news}};
        if (FAN_SYS(ppoll, polled, 3, NULL, NULL, sizeof(uint64_t)) < 0)
            continue;
        if (polled[1].revents != 0)
            witness(own->signals);
        if (polled[2].revents != 0)
            lose_stand_in(own);
        if (polled[0].revents & (POLLHUP | POLLERR | POLLNVAL))
            own->listener = -1;
        reap(own);
    }
}

static void raise_limits(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

void fan_supervise(char **argv, int news, const sigset_t *mask)
{
    struct supervisor own = {.news = news, .stand_in = getppid()};
    int sockets[2];
    sigset_t all;
    sigprocmask(SIG_SETMASK, NULL, &all);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int rc = fan_tree_begin();
    if (rc < 0)
        fail(&own, "the job's directory", rc);
    own.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (own.signals < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        fail(&own, "descriptors", -errno);
    pid_t self = getpid();
    own.command = fork();
    if (own.command == 0) {
        FAN_SYS(close, sockets[0]);
        become(argv, news, sockets[1], mask, self);
    }
    if (own.command < 0)
        fail(&own, "fork", -errno);
    FAN_SYS(close, sockets[1]);
    int socket = sockets[0];
    let_go(&own, socket);
    raise_limits();
    own.listener = receive_fd(socket);
    if (own.listener < 0) { /* it has said why */
        fan_tree_end();
        _exit(125);
    }
    fan_news_tell(own.news, FAN_NEWS_STARTED, own.command, "");
    rc = fan_serve(own.listener);
    if (rc < 0)
        fail(&own, "threads", rc);
    FAN_SYS(write, socket, "", 1);
    fan_sys_close(socket);
    watch(&own);
    fan_names_end();
    fan_tree_end();
    _exit(0);
}
