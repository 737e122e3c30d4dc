#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "family.h"

enum { OWN_FAILURE = 125 };

/* Gives the process its own name, in place of the arguments, so that a user who kills the command
 * or the supervisor by name (pkill, also with -f) does not kill this process, which must end the
 * others. */
static void take_name(char **argv)
{
    static const char name[] = "fanstore-guard";
    char *first = program_invocation_name, *end = first;
    for (; *argv != NULL; argv++)
        end = *argv + strlen(*argv);
    memset(first, 0, (size_t)(end - first));
    snprintf(first, (size_t)(end - first), "%s", name);
    prctl(PR_SET_NAME, name, 0, 0, 0);
}

/* Keeps the listener open, so that caught calls wait if the supervisor has ended. Otherwise the
 * calls would fail, and the programs would continue with the errors. */
static void __attribute__((noreturn)) guard(pid_t supervisor, int news, int socket, char **argv)
{
    take_name(argv);
    fan_let_go((const int[]){news, socket, -1});
    fan_receive_fd(socket);
    while (waitpid(supervisor, NULL, 0) < 0 && errno == EINTR)
        continue;
    fan_family_end();
    _exit(0);
}

void fan_guard(char **argv, int news, const sigset_t *mask)
{
    int sockets[2];
    pid_t stand_in = getppid();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        fan_news_tell(news, FAN_NEWS_FAILED, errno, "descriptors");
        _exit(OWN_FAILURE);
    }
    pid_t supervisor = fork();
    if (supervisor == 0) {
        FAN_SYS(close, sockets[0]);
        fan_supervise(argv, news, sockets[1], stand_in, mask);
    }
    if (supervisor < 0) {
        fan_news_tell(news, FAN_NEWS_FAILED, errno, "fork");
        _exit(OWN_FAILURE);
    }
    FAN_SYS(close, sockets[1]);
    guard(supervisor, news, sockets[0], argv);
}
