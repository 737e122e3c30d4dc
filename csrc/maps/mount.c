#include "mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
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
    STOPPED_TICKS = 30 /* after so many without a beat, the process that answers was stopped */
};

static pid_t answering; /* the process that answers the kernel */

/* The state of the process that has the mount. polled: the listener, then the programs. */
struct door {
    struct fan_mount mount;
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

/* Makes the mount the root, and lets go of all others: this namespace would keep them alive. */
static int let_go_of_the_rest(void)
{
    bool done = chdir(PLACE) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
                umount2(".", MNT_DETACH) == 0 && chdir("/") == 0;
    return done ? 0 : -errno;
}

/* Ends this process, and the one that answers the kernel: a program may wait for its answer in a
 * way that no signal ends. */
static _Noreturn void end_both(void)
{
    kill(answering, SIGKILL);
    _exit(1);
}

/* Opens an input on the mount. Returns a descriptor or -errno. */
static int open_input(const struct fan_mount *mount, const char *path, size_t bytes)
{
    int32_t number;
    char name[16];
    if (send(mount->link, path, bytes, MSG_NOSIGNAL) < 0 ||
        recv(mount->link, &number, sizeof(number), 0) != sizeof(number))
        end_both(); /* it has ended, or was stopped */
    if (number < 0)
        return number;
    snprintf(name, sizeof(name), "%d", number);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static void answer_program(const struct fan_mount *mount, int program)
{
    char path[PATH_MAX];
    ssize_t bytes = recv(program, path, sizeof(path), MSG_DONTWAIT | MSG_TRUNC);
    bool whole = bytes > 0 && (size_t)bytes < sizeof(path) && memchr(path, '\0', bytes) == NULL;
    int fd = whole ? open_input(mount, path, (size_t)bytes) : -EINVAL;
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
}

static void answer_programs(struct door *door)
{
    for (unsigned i = door->count - 1; i > 0; i--) {
        if (door->polled[i].revents == 0)
            continue;
        answer_program(&door->mount, door->polled[i].fd);
        close(door->polled[i].fd);
        door->polled[i] = door->polled[--door->count];
    }
    bool full = door->count > PROGRAMS_MAX;
    if (door->polled[0].revents != 0 && !full)
        accept_program(door);
    door->polled[0].events = door->count > PROGRAMS_MAX ? 0 : POLLIN;
}

static _Noreturn void serve(struct door *door)
{
    unsigned beat = 0, still = 0;
    for (;;) {
        int ready = poll(door->polled, door->count, FAN_MOUNT_TICK_MS);
        if (ready > 0)
            answer_programs(door);
        unsigned now = atomic_load_explicit(door->mount.beat, memory_order_relaxed);
        still = now != beat || ready > 0 ? 0 : still + 1;
        beat = now;
        if (still >= STOPPED_TICKS)
            end_both();
    }
}

static _Noreturn void run(int listener, const struct fan_mount *mount)
{
    struct door door = {
        .mount = *mount, .polled = {{.fd = listener, .events = POLLIN}}, .count = 1};
    struct timeval limit = {.tv_sec = STOPPED_TICKS * FAN_MOUNT_TICK_MS / 1000};
    setsockopt(mount->link, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    int fuse = mount_fuse();
    int32_t error = fuse < 0 ? -fuse : 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* entering a user namespace may clear it */
    if (getppid() != answering || fuse < 0) {
        send(mount->link, &error, sizeof(error), MSG_NOSIGNAL);
        _exit(1);
    }
    fan_fd_send(mount->link, &error, sizeof(error), fuse, MSG_NOSIGNAL);
    close(fuse);
    error = -let_go_of_the_rest();
    send(mount->link, &error, sizeof(error), MSG_NOSIGNAL);
    if (error == 0)
        serve(&door);
    _exit(1);
}

int fan_mount_start(int listener, struct fan_mount *mount)
{
    int links[2], fuse;
    int32_t error = EIO;
    answering = getpid();
    mount->beat =
        mmap(NULL, sizeof(*mount->beat), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mount->beat == MAP_FAILED ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, links) != 0)
        return -errno;
    pid_t pid = fork();
    mount->link = links[pid == 0];
    close(links[pid != 0]);
    if (pid == 0)
        run(listener, mount);
    close(listener);
    if (pid < 0)
        return -EAGAIN;
    if (fan_fd_receive(mount->link, &error, sizeof(error), &fuse, 0) != sizeof(error) || fuse < 0)
        return -(int)error;
    return fuse;
}

int fan_mount_wait(const struct fan_mount *mount)
{
    int32_t error;
    return recv(mount->link, &error, sizeof(error), 0) == sizeof(error) ? -(int)error : -EPIPE;
}

long fan_mount_next(const struct fan_mount *mount, char *path, unsigned long capacity)
{
    struct pollfd polled = {.fd = mount->link, .events = POLLIN};
    atomic_fetch_add_explicit(mount->beat, 1, memory_order_relaxed);
    if (poll(&polled, 1, FAN_MOUNT_TICK_MS) <= 0)
        return 0;
    ssize_t got = recv(mount->link, path, capacity - 1, 0);
    path[got > 0 ? got : 0] = '\0';
    return got > 0 ? got : -EPIPE;
}

void fan_mount_reply(const struct fan_mount *mount, int number)
{
    int32_t answer = number;
    send(mount->link, &answer, sizeof(answer), MSG_NOSIGNAL);
}
