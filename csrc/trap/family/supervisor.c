#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../client/job/jobsocket.h"
#include "../../common/sys.h"
#include "family.h"
#include "../names.h"
#include "../tree.h"

struct supervisor {
    int news;     /* to the stand-in; -1: the stand-in has ended */
    int listener; /* -1: all watched processes have ended */
    int signals;
    int guard;               /* hangs up when the guard ends */
    pid_t stand_in, command; /* 0: it has ended */
};

/* Runs the command's process until exec. It dies with the supervisor, without which it could not
 * open a file. */
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
    fan_send_fd(socket, listener);
    FAN_SYS(close, listener);
    if (FAN_SYS(read, socket, &byte, 1) != 1)
        _exit(125);
    FAN_SYS(close, socket);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvpe(argv[0], argv, environ);
    fan_news_tell(news, FAN_NEWS_NOT_EXEC, errno, "");
    _exit(errno == ENOENT || errno == ENOTDIR ? 127 : 126);
}

static void __attribute__((noreturn)) fail(const struct supervisor *own, const char *step, int rc)
{
    fan_news_tell(own->news, FAN_NEWS_FAILED, -rc, step);
    fan_trap_tree_end();
    _exit(125);
}

/* Returns whether no watched process is left. */
static bool alone(const struct supervisor *own)
{
    const struct timespec none = {0};
    struct pollfd polled = {.fd = own->listener};
    return own->listener < 0 || (FAN_SYS(ppoll, &polled, 1, &none, NULL, sizeof(uint64_t)) == 1 &&
                                 polled.revents & POLLHUP);
}

/* Tells the stand-in that the command has ended. Descendants of the command may continue. */
static void tell_end(struct supervisor *own, int status)
{
    own->command = 0;
    if (!alone(own)) {
        fan_news_tell(own->news, FAN_NEWS_ENDED, status, "");
        return;
    }
    fan_names_end();
    fan_trap_tree_end();
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

/* Handles the end of the stand-in. If the command has not ended, the stand-in was killed, and this
 * kills the command. */
static void lose_stand_in(struct supervisor *own)
{
    if (own->command > 0)
        kill(own->command, SIGKILL);
    fan_sys_close(own->news);
    own->news = -1;
}

/* Ends the family after the guard was killed: nobody would end the family if this process were
 * killed, too. */
static void __attribute__((noreturn)) lose_guard(void)
{
    fan_family_end();
    fan_names_end();
    fan_trap_tree_end();
    _exit(125);
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
        struct pollfd polled[4] = {{.fd = own->listener},
                                   {.fd = own->signals, .events = POLLIN},
                                   {.fd = own->news},
                                   {.fd = own->guard}};
        if (FAN_SYS(ppoll, polled, 4, NULL, NULL, sizeof(uint64_t)) < 0)
            continue;
        if (polled[3].revents != 0)
            lose_guard();
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

void fan_supervise(char **argv, int news, int guard, pid_t stand_in, const sigset_t *mask)
{
    struct supervisor own = {.news = news, .guard = guard, .stand_in = stand_in};
    int sockets[2];
    sigset_t all;
    sigprocmask(SIG_SETMASK, NULL, &all);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    int rc = fan_trap_tree_begin();
    if (rc < 0)
        fail(&own, "the job's directory", rc);
    own.signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (own.signals < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
        fail(&own, "descriptors", -errno);
    pid_t self = getpid();
    atomic_store(&fan_witness->supervisor, self);
    own.command = fork();
    if (own.command == 0) {
        FAN_SYS(close, sockets[0]);
        become(argv, news, sockets[1], mask, self);
    }
    if (own.command < 0)
        fail(&own, "fork", -errno);
    FAN_SYS(close, sockets[1]);
    int socket = sockets[0];
    fan_let_go((const int[]){own.news, own.signals, own.guard, socket, -1});
    raise_limits();
    own.listener = fan_receive_fd(socket);
    if (own.listener < 0) { /* the command's process has reported why */
        fan_trap_tree_end();
        _exit(125);
    }
    fan_send_fd(own.guard, own.listener);
    fan_news_tell(own.news, FAN_NEWS_STARTED, own.command, "");
    rc = fan_serve(own.listener);
    if (rc < 0)
        fail(&own, "threads", rc);
    FAN_SYS(write, socket, "", 1);
    fan_sys_close(socket);
    watch(&own);
    fan_names_end();
    fan_trap_tree_end();
    _exit(0);
}
