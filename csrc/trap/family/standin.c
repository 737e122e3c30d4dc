#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../client/job/jobsocket.h"
#include "../../common/sys.h"
#include "family.h"

enum { WITNESS_STEPS = 5, WITNESS_STEP_NS = 1000000, WITNESS_LIMIT_NS = 100000000 };
enum { OWN_FAILURE = 125, NOT_EXECUTABLE = 126, NOT_FOUND = 127 };

struct stand_in {
    const char *say;
    char **argv;
    pid_t guard;
    int command; /* a pidfd, or -1 */
    int code;
    bool ended;
};

/* Ends this process as the command ended. */
static int end_like(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    const struct rlimit none = {0, 0};
    sigset_t only;
    int number = WTERMSIG(status);
    setrlimit(RLIMIT_CORE, &none); /* the command has left one */
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    kill(getpid(), number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    return 128 + number;
}

static void hear(struct stand_in *own, const struct fan_news *news)
{
    switch (news->kind) {
    case FAN_NEWS_STARTED:
        own->command = (int)FAN_SYS(pidfd_open, news->value, 0);
        return;
    case FAN_NEWS_STOPPED:
        kill(getpid(), SIGSTOP);
        return;
    case FAN_NEWS_LAST:
        waitpid(own->guard, NULL, 0);
        own->code = own->code != 0 ? own->code : end_like(news->value);
        break;
    case FAN_NEWS_ENDED:
        own->code = own->code != 0 ? own->code : end_like(news->value);
        break;
    case FAN_NEWS_NOT_EXEC:
        fprintf(stderr, "%s: error: %s: %s\n", own->say, own->argv[0], strerror(news->value));
        own->code = news->value == ENOENT || news->value == ENOTDIR ? NOT_FOUND : NOT_EXECUTABLE;
        return; /* the end of its process is also told */
    default:
        fprintf(stderr, "%s: error: --trap: %s: %s\n", own->say, news->step,
                news->value == EBUSY ? "another seccomp listener watches this process already"
                                     : strerror(news->value));
        own->code = OWN_FAILURE;
    }
    own->ended = true;
}

/* Returns whether slurmstepd sent a signal. */
static bool is_slurms(pid_t sender)
{
    char path[40], name[16] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", (int)sender);
    FILE *stream = fopen(path, "re");
    bool is = stream != NULL && fgets(name, sizeof(name), stream) != NULL &&
              strncmp(name, "slurmstepd", 10) == 0;
    if (stream != NULL)
        fclose(stream);
    return is;
}

/* Returns whether a signal was sent to the whole process group, in which case the supervisor gets
 * it within a moment. */
static bool is_groups(unsigned number)
{
    const struct timespec step = {.tv_nsec = WITNESS_STEP_NS};
    for (int i = 0; i < WITNESS_STEPS && number < _NSIG; i++) {
        int64_t seen_ns = atomic_load(&fan_witness->seen_ns[number]);
        if (seen_ns != 0 && fan_clock_ns() - seen_ns < WITNESS_LIMIT_NS)
            return true;
        FAN_SYS(nanosleep, &step, NULL);
    }
    return false;
}

/* Passes a signal to the command, unless the command gets it anyway: from the terminal, from Slurm,
 * or because it was sent to the group. */
static void pass_on(const struct stand_in *own, const struct signalfd_siginfo *info)
{
    bool reached = info->ssi_code == SI_KERNEL || (pid_t)info->ssi_pid == fan_witness->supervisor ||
                   info->ssi_signo == SIGCHLD || is_slurms((pid_t)info->ssi_pid) ||
                   is_groups(info->ssi_signo);
    if (!reached && own->command >= 0)
        FAN_SYS(pidfd_send_signal, own->command, info->ssi_signo, NULL, 0);
}

static void run(struct stand_in *own, int news, int signals)
{
    struct pollfd polled[2] = {{.fd = news, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    while (!own->ended) {
        struct signalfd_siginfo info;
        struct fan_news heard;
        if (FAN_SYS(ppoll, polled, 2, NULL, NULL, sizeof(uint64_t)) < 0)
            continue;
        if (polled[1].revents != 0 && FAN_SYS(read, signals, &info, sizeof(info)) == sizeof(info))
            pass_on(own, &info);
        if (polled[0].revents == 0)
            continue;
        if (FAN_SYS(read, news, &heard, sizeof(heard)) == sizeof(heard)) {
            hear(own, &heard);
        } else {
            fprintf(stderr,
                    "%s: error: --trap: the supervisor was killed, and the command and all "
                    "that it started with it\n",
                    own->say);
            own->code = OWN_FAILURE;
            own->ended = true;
        }
    }
}

int fan_stand_in(char **argv, const char *say)
{
    struct stand_in own = {.say = say, .argv = argv, .command = -1};
    static const int faults[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    int pipes[2];
    sigset_t all, before;
    sigfillset(&all);
    for (unsigned i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(&all, faults[i]);
    sigprocmask(SIG_SETMASK, &all, &before);
    int signals = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    fan_witness =
        mmap(NULL, sizeof(*fan_witness), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (fan_witness == MAP_FAILED || signals < 0 || pipe2(pipes, O_CLOEXEC) != 0) {
        fprintf(stderr, "%s: error: --trap: %s\n", say, strerror(errno));
        return OWN_FAILURE;
    }
    own.guard = fork();
    if (own.guard == 0) {
        fan_sys_close(pipes[0]);
        fan_sys_close(signals);
        fan_guard(argv, pipes[1], &before);
    }
    fan_sys_close(pipes[1]);
    if (own.guard < 0) {
        fprintf(stderr, "%s: error: --trap: fork: %s\n", say, strerror(errno));
        return OWN_FAILURE;
    }
    run(&own, pipes[0], signals);
    return own.code;
}
