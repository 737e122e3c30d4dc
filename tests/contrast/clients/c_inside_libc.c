/* Descriptors that libc closes or replaces by itself, past any wrapper of close and dup2. */
#include "client.h"

#include <dirent.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <utmp.h>

static const char *kind(int fd)
{
    struct stat status;
    char byte;
    if (fstat(fd, &status) != 0)
        return strerrorname_np(errno);
    if (S_ISREG(status.st_mode))
        return pread(fd, &byte, 1, 0) == 1 ? "file" : "unreadable file";
    return S_ISDIR(status.st_mode)   ? "directory"
           : S_ISCHR(status.st_mode) ? "device"
           : S_ISFIFO(status.st_mode) ? "pipe"
                                      : "other";
}

CASE(stream_of_directory)
{
    int pair[2], fd = open(in_tree("text"), O_RDONLY | O_DIRECTORY);
    FILE *stream = fdopen(fd, "r");
    SHOW("before: %s", kind(fd));
    OK(stream != NULL && fclose(stream) == 0);
    SHOW("closed: %s", kind(fd));
    OK(pipe(pair) == 0 && pair[0] == fd);
    SHOW("pipe: %s %s", kind(pair[0]), kind(pair[1]));
}

CASE(stream_replaced)
{
    int fd = open(in_tree("text"), O_RDONLY | O_DIRECTORY);
    FILE *stream = fdopen(fd, "r");
    OK(stream != NULL && freopen("/dev/null", "r", stream) != NULL);
    SHOW("replaced: %s %d", kind(fd), fileno(stream) == fd);
}

CASE(all_streams_closed)
{
    FILE *stream = fopen(in_tree("text/hello.txt"), "r");
    int fd = fileno(stream);
    OK(fcloseall() == 0);
    SHOW("after fcloseall: %s", kind(fd));
}

CASE(duplicates)
{
    int fd = open(in_tree("text/x"), O_RDONLY), other = open("/dev/null", O_RDONLY);
    close(fd);
    OK(fcntl(other, F_DUPFD, fd) == fd);
    SHOW("duplicate: %s", kind(fd));
}

/* What `replace` leaves under 0, 1 and 2, each a file of the tree before. */
static void show_standard(void (*replace)(void))
{
    char text[200] = {0};
    int pair[2], saved;
    fflush(stdout);
    OK(pipe(pair) == 0);
    if (fork() == 0) {
        int fd = open(in_tree("text/hello.txt"), O_RDONLY);
        saved = dup(pair[1]);
        for (int to = 0; to < 3; to++)
            dup2(fd, to);
        replace();
        dprintf(saved, "%s %s %s, tty %d", kind(0), kind(1), kind(2), isatty(0));
        _exit(0);
    }
    close(pair[1]);
    for (size_t got = 0, part = 1; part > 0 && got < sizeof(text) - 1; got += part)
        part = read(pair[0], text + got, sizeof(text) - 1 - got);
    while (wait(NULL) > 0) {
    }
    SHOW("standard: %s", text);
}

static void by_daemon(void)
{
    if (daemon(1, 0) != 0)
        _exit(1);
}

static void by_daemon_keeping(void)
{
    if (daemon(1, 1) != 0)
        _exit(1);
}

static void by_login_tty(void)
{
    int leader, follower;
    if (openpty(&leader, &follower, NULL, NULL, NULL) != 0 || login_tty(follower) != 0)
        _exit(1);
}

static void by_forkpty(void)
{
    int leader;
    pid_t pid = forkpty(&leader, NULL, NULL, NULL);
    if (pid != 0) {
        waitpid(pid, NULL, 0);
        _exit(pid < 0);
    }
}

CASE(daemon_standard) { show_standard(by_daemon); }
CASE(daemon_keeping) { show_standard(by_daemon_keeping); }
CASE(login_tty_standard) { show_standard(by_login_tty); }
CASE(forkpty_standard) { show_standard(by_forkpty); }

CASE(daemon_directory)
{
    char here[PATH_MAX] = "";
    int pair[2];
    fflush(stdout);
    OK(chdir(in_tree("text")) == 0 && access("hello.txt", R_OK) == 0 && pipe(pair) == 0);
    if (fork() == 0) {
        if (daemon(0, 1) == 0)
            dprintf(pair[1], "%s %d", getcwd(here, sizeof(here)), access("hello.txt", R_OK));
        _exit(0);
    }
    close(pair[1]);
    OK(read(pair[0], here, sizeof(here)) > 0);
    SHOW("%s", here);
}
