/* One thing at a time: rest WHAT [ARGUMENT...]. */
#define _GNU_SOURCE
#include "shown.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int copy(const char *path)
{
    char piece[4096];
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        return errno;
    for (ssize_t got; (got = read(fd, piece, sizeof(piece))) > 0;)
        write(1, piece, (size_t)got);
    return 0;
}

/* A program that goes on alone, without streams, and reads after its parent has ended. */
static int daemonise(const char *path, const char *to)
{
    if (fork() > 0)
        return 0;
    setsid();
    if (fork() > 0)
        _exit(0);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    usleep(300000);
    open("/dev/null", O_RDWR);
    int fd = open(to, O_CREAT | O_WRONLY, 0600);
    dup2(fd, 1);
    int rc = copy(path);
    dprintf(1, "%d\n", rc);
    return 0;
}

/* A chain of processes each of which ends when it has started the next; for a minute or so. */
static void move_on(void)
{
    for (int i = 0; i < 60000 && fork() == 0; i++)
        usleep(500);
    _exit(0);
}

/* A family that does not end by itself soon, and keeps its standard output: a daemon, a process whose parent has
 * ended, one that does not care about its parent's end, and a chain. Says whose child it is. */
static int spread(int leave)
{
    pid_t supervisor = getppid();
    prctl(PR_SET_PDEATHSIG, 0);
    if (fork() == 0) {
        setsid();
        if (fork() == 0)
            sleep(60);
        _exit(0);
    }
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, 0);
        signal(SIGTERM, SIG_IGN);
        sleep(60);
    }
    if (fork() == 0)
        move_on();
    printf("%d\n", (int)supervisor);
    fflush(stdout);
    if (!leave)
        sleep(60);
    return 0;
}

static volatile sig_atomic_t hits;

static void hit(int number)
{
    (void)number;
    hits++;
}

/* Opens while signals come in, as Go's threads do. */
static int interrupted(const char *path)
{
    struct sigaction action = {.sa_handler = hit, .sa_flags = SA_RESTART};
    sigaction(SIGURG, &action, NULL);
    pid_t own = getpid(), child = fork();
    if (child == 0) {
        for (;;) {
            kill(own, SIGURG);
            usleep(50);
        }
    }
    int failed = 0;
    for (int i = 0; i < 500; i++) {
        int fd = open(path, O_RDONLY);
        failed += fd != 3;
        close(fd);
    }
    kill(child, SIGKILL);
    wait(NULL);
    printf("%d failed, %s\n", failed, hits > 0 ? "hit" : "not hit");
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argv[1];
    if (strcmp(what, "cat") == 0)
        return copy(argv[2]);
    if (strcmp(what, "daemon") == 0)
        return daemonise(argv[2], argv[3]);
    if (strcmp(what, "spread") == 0)
        return spread(argv[2] != NULL);
    if (strcmp(what, "interrupted") == 0)
        return interrupted(argv[2]);
    if (strcmp(what, "uring") == 0) {
        long rc = syscall(SYS_io_uring_setup, 8, NULL);
        return rc < 0 ? errno : 0;
    }
    if (strcmp(what, "exec") == 0) {
        execv(argv[2], argv + 2);
        return errno;
    }
    if (strcmp(what, "enter") == 0)
        return chdir(argv[2]) == 0 ? 0 : errno;
    if (strcmp(what, "write") == 0) {
        int fd = open(argv[2], O_CREAT | O_WRONLY, 0600);
        return fd < 0 ? errno : dprintf(fd, "%s\n", argv[3]) < 0;
    }
    if (strcmp(what, "killed") == 0) {
        int fd = open(argv[2], O_CREAT | O_WRONLY, 0600);
        write(fd, "half", 4);
        raise(SIGKILL);
    }
    (void)argc;
    return 99;
}
