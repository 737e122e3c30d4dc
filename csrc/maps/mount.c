#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../common/descriptor.h"
#include "../common/sys.h"
#include "fuse.h"

#define PLACE "/dev" /* a directory that every machine has; this process needs nothing in it */

enum {
    PROGRAMS_MAX = 64, /* connections at once; others wait */
    TICK_MS = 1000,
    STOPPED_TICKS = 30, /* after so many, a stopped process is killed */
    PAUSE_US = 10000
};

static pid_t answering; /* the process that answers the kernel */

/* The state of the process that has the mount. link: to the other one. polled: the listener, then
 * the programs. */
struct door {
    int link;
    struct pollfd polled[1 + PROGRAMS_MAX];
    unsigned count;
};

static int write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ssize_t put = fd < 0 ? -1 : write(fd, text, strlen(text));
    int rc = put < 0 ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Keeps the numbers of the user and the group: the kernel compares them with those of the mount. */
static int enter_namespaces(void)
{
    unsigned uid = getuid(), gid = getgid();
    char uids[64], gids[64];
    snprintf(uids, sizeof(uids), "%u %u 1", uid, uid);
    snprintf(gids, sizeof(gids), "%u %u 1", gid, gid);
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return -errno;
    int rc = write_text("/proc/self/setgroups", "deny");
    rc = rc == 0 ? write_text("/proc/self/uid_map", uids) : rc;
    return rc == 0 ? write_text("/proc/self/gid_map", gids) : rc;
}

/* Mounts. Returns a descriptor of /dev/fuse, opened in this namespace, as the kernel demands. */
static int mount_fuse(void)
{
    char options[128];
    int rc = enter_namespaces();
    int fd = rc == 0 ? open("/dev/fuse", O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return rc != 0 ? rc : -errno;
    snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%u,group_id=%u,max_read=%d",
             fd, getuid(), getgid(), FAN_FUSE_READ_BYTES_MAX);
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("fanstore", PLACE, "fuse", MS_NOSUID | MS_NODEV | MS_RDONLY, options) != 0) {
        rc = -errno;
        close(fd);
    }
    return rc != 0 ? rc : fd;
}

/* Goes to the mount, and lets go of all others: this namespace would keep them alive. They stay
 * where the root is an initramfs, which cannot be replaced. */
static bool enter_mount(void)
{
    if (chdir(PLACE) != 0)
        return false;
    bool replaced = syscall(SYS_pivot_root, ".", ".") == 0 && umount2(".", MNT_DETACH) == 0;
    return !replaced || chdir("/") == 0;
}

/* Ends this process, and the one that answers the kernel: a program may wait for its answer in a
 * way that no signal ends. */
static _Noreturn void end_both(void)
{
    kill(answering, SIGKILL);
    _exit(1);
}

/* Opens an input on the mount. Returns a descriptor or -errno. */
static int open_input(int link, const char *path, size_t bytes)
{
    int32_t number;
    char name[16];
    if (send(link, path, bytes, MSG_NOSIGNAL) < 0 ||
        recv(link, &number, sizeof(number), 0) != sizeof(number))
        end_both(); /* it has ended */
    if (number < 0)
        return number;
    snprintf(name, sizeof(name), "%d", number);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void answer_program(int link, int program)
{
    char path[PATH_MAX];
    ssize_t bytes = recv(program, path, sizeof(path), MSG_DONTWAIT | MSG_TRUNC);
    bool whole = bytes > 0 && (size_t)bytes < sizeof(path) && memchr(path, '\0', bytes) == NULL;
    int fd = whole ? open_input(link, path, (size_t)bytes) : -EINVAL;
    int32_t error = fd < 0 ? -fd : 0;
    if (fd < 0) {
        send(program, &error, sizeof(error), MSG_DONTWAIT | MSG_NOSIGNAL);
        return;
    }
    fan_fd_send(program, &error, sizeof(error), fd, MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

static void accept_program(struct door *door)
{
    int program = accept4(door->polled[0].fd, NULL, NULL, SOCK_CLOEXEC);
    if (program >= 0)
        door->polled[door->count++] = (struct pollfd){.fd = program, .events = POLLIN};
    else
        usleep(PAUSE_US); /* no descriptor is free */
}

static void answer_programs(struct door *door)
{
    for (unsigned i = door->count - 1; i > 0; i--) {
        if (door->polled[i].revents == 0)
            continue;
        answer_program(door->link, door->polled[i].fd);
        close(door->polled[i].fd);
        door->polled[i] = door->polled[--door->count];
    }
    bool full = door->count > PROGRAMS_MAX;
    if (door->polled[0].revents != 0 && !full)
        accept_program(door);
    door->polled[0].events = door->count > PROGRAMS_MAX ? 0 : POLLIN;
}

/* Ends both processes when the one that answers was stopped for long. In a thread of its own,
 * because the other one may wait for an answer. stat: of that process, in /proc. */
static void *watch(void *stat)
{
    for (unsigned stopped = 0; stopped < STOPPED_TICKS;) {
        char text[128];
        usleep(TICK_MS * 1000);
        ssize_t got = pread(*(const int *)stat, text, sizeof(text) - 1, 0);
        text[got > 0 ? got : 0] = '\0';
        const char *name_end = strrchr(text, ')');
        stopped = name_end != NULL && strchr("Tt", name_end[2]) != NULL ? stopped + 1 : 0;
    }
    end_both();
}

static void serve(struct door *door, int stat)
{
    pthread_t watcher;
    if (pthread_create(&watcher, NULL, watch, &stat) != 0)
        return;
    for (;;)
        if (poll(door->polled, door->count, -1) > 0)
            answer_programs(door);
}

static _Noreturn void run(int listener, int link)
{
    struct door door = {.link = link, .polled = {{.fd = listener, .events = POLLIN}}, .count = 1};
    char path[32];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)answering);
    int stat = open(path, O_RDONLY | O_CLOEXEC);
    int fuse = stat < 0 ? -errno : mount_fuse();
    int32_t error = fuse < 0 ? -fuse : 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* entering a user namespace may clear it */
    if (getppid() != answering || fuse < 0) {
        send(link, &error, sizeof(error), MSG_NOSIGNAL);
        _exit(1);
    }
    fan_fd_send(link, &error, sizeof(error), fuse, MSG_NOSIGNAL);
    close(fuse);
    if (enter_mount())
        serve(&door, stat);
    _exit(1);
}

int fan_mount_start(int listener, int *link)
{
    int links[2], fuse;
    int32_t error = EIO;
    answering = getpid();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) != 0)
        return -errno;
    pid_t pid = fork();
    *link = links[pid == 0];
    close(links[pid != 0]);
    if (pid == 0)
        run(listener, *link);
    close(listener);
    if (pid < 0)
        return -EAGAIN;
    if (fan_fd_receive(*link, &error, sizeof(error), &fuse, 0) != sizeof(error) || fuse < 0)
        return -(int)error;
    return fuse;
}

long fan_mount_next(int link, char *path, unsigned long capacity)
{
    struct pollfd polled = {.fd = link, .events = POLLIN};
    if (poll(&polled, 1, TICK_MS) <= 0)
        return 0;
    ssize_t got = recv(link, path, capacity - 1, 0);
    path[got > 0 ? got : 0] = '\0';
    return got > 0 ? got : -EPIPE;
}

void fan_mount_reply(int link, int number)
{
    int32_t answer = number;
    send(link, &answer, sizeof(answer), MSG_NOSIGNAL);
}
