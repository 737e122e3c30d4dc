/*
 * posix_spawn. libc performs a list of file actions itself, without calling this library. So the
 * list and the start are this library's own: a vfork child performs the actions through the
 * intercepted calls.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../client/files/filetable.h"
#include "../../client/job/job.h"
#include "../../client/machine/fault.h"
#include "../../client/machine/park.h"
#include "../../common/sys.h"
#include "../real.h"
#include "../undeclared.h"
#include "start.h"

enum tag { DO_OPEN, DO_CLOSE, DO_DUP2, DO_CHDIR, DO_FCHDIR, DO_CLOSEFROM, DO_TCSETPGRP };

/* An entry of the list to which `__actions` of libc's struct points. */
struct action {
    enum tag tag;
    int fd, to;
    int flags;
    mode_t mode;
    char *path; /* a copy */
};

static struct action *entries(const posix_spawn_file_actions_t *actions)
{
    return (struct action *)(void *)actions->__actions;
}

static int append(posix_spawn_file_actions_t *actions, struct action action, const char *path)
{
    if (actions->__used == actions->__allocated) {
        int room = actions->__allocated + 8;
        void *grown = realloc(actions->__actions, (size_t)room * sizeof(struct action));
        if (grown == NULL)
            return ENOMEM;
        actions->__actions = grown;
        actions->__allocated = room;
    }
    if (path != NULL && (action.path = strdup(path)) == NULL)
        return ENOMEM;
    entries(actions)[actions->__used++] = action;
    return 0;
}

static bool possible(int fd)
{
    return fd >= 0 && fd < sysconf(_SC_OPEN_MAX);
}

FAN_EXPORT int posix_spawn_file_actions_init(posix_spawn_file_actions_t *actions)
{
    if (fan_job.view_count == 0)
        return REAL(posix_spawn_file_actions_init)(actions);
    memset(actions, 0, sizeof(*actions));
    return 0;
}

FAN_EXPORT int posix_spawn_file_actions_destroy(posix_spawn_file_actions_t *actions)
{
    if (fan_job.view_count == 0)
        return REAL(posix_spawn_file_actions_destroy)(actions);
    for (int i = 0; i < actions->__used; i++)
        free(entries(actions)[i].path);
    free(actions->__actions);
    memset(actions, 0, sizeof(*actions));
    return 0;
}

FAN_EXPORT int posix_spawn_file_actions_addopen(posix_spawn_file_actions_t *actions, int fd,
                                                const char *path, int flags, mode_t mode)
{
    if (fan_job.view_count == 0)
        return REAL(posix_spawn_file_actions_addopen)(actions, fd, path, flags, mode);
    struct action action = {.tag = DO_OPEN, .fd = fd, .flags = flags, .mode = mode};
    return possible(fd) ? append(actions, action, path) : EBADF;
}

FAN_EXPORT int posix_spawn_file_actions_adddup2(posix_spawn_file_actions_t *actions, int fd, int to)
{
    if (fan_job.view_count == 0)
        return REAL(posix_spawn_file_actions_adddup2)(actions, fd, to);
    struct action action = {.tag = DO_DUP2, .fd = fd, .to = to};
    return possible(fd) && possible(to) ? append(actions, action, NULL) : EBADF;
}

/* Declared here without _np: newer headers redirect the names with _np to these, older ones lack
 * them. */
int fan_add_chdir(posix_spawn_file_actions_t *actions,
                  const char *path) __asm__("posix_spawn_file_actions_addchdir");
int fan_add_fchdir(posix_spawn_file_actions_t *actions,
                   int fd) __asm__("posix_spawn_file_actions_addfchdir");

FAN_EXPORT int fan_add_chdir(posix_spawn_file_actions_t *actions, const char *path)
{
    if (fan_job.view_count == 0)
        return REAL(posix_spawn_file_actions_addchdir_np)(actions, path);
    return append(actions, (struct action){.tag = DO_CHDIR}, path);
}

/* The actions that take only a descriptor. */
#define ADD_FD(name, what, allowed)                                                                \
    FAN_EXPORT int posix_spawn_file_actions_##name(posix_spawn_file_actions_t *actions, int fd)    \
    {                                                                                              \
        if (fan_job.view_count == 0)                                                               \
            return REAL(posix_spawn_file_actions_##name)(actions, fd);                             \
        struct action action = {.tag = what, .fd = fd};                                            \
        return allowed ? append(actions, action, NULL) : EBADF;                                    \
    }

ADD_FD(addclose, DO_CLOSE, possible(fd))
ADD_FD(addclosefrom_np, DO_CLOSEFROM, fd >= 0)
ADD_FD(addtcsetpgrp_np, DO_TCSETPGRP, possible(fd))

FAN_EXPORT int fan_add_fchdir(posix_spawn_file_actions_t *actions, int fd)
{
    if (fan_job.view_count == 0)
        return REAL(posix_spawn_file_actions_addfchdir_np)(actions, fd);
    struct action action = {.tag = DO_FCHDIR, .fd = fd};
    return possible(fd) ? append(actions, action, NULL) : EBADF;
}

/* The task of the child. error: its result, in memory that both share. */
struct order {
    struct fan_program program;
    const posix_spawn_file_actions_t *actions;
    const posix_spawnattr_t *attributes;
    char *const *argv, *const *env;
    sigset_t mask;
    volatile int error;
};

static int move_to(int fd, int to)
{
    if (fd == to)
        return 0;
    int rc = dup2(fd, to) < 0 ? -errno : 0;
    close(fd);
    return rc;
}

static int perform(const struct action *action)
{
    int flags, fd;
    switch (action->tag) {
    case DO_OPEN:
        close(action->fd);
        fd = open(action->path, action->flags, action->mode);
        return fd < 0 ? -errno : move_to(fd, action->fd);
    case DO_CLOSE:
        close(action->fd);
        return 0;
    case DO_DUP2:
        if (action->fd != action->to)
            return dup2(action->fd, action->to) < 0 ? -errno : 0;
        flags = fcntl(action->fd, F_GETFD);
        return flags < 0 || fcntl(action->fd, F_SETFD, flags & ~FD_CLOEXEC) < 0 ? -errno : 0;
    case DO_CHDIR:
        return chdir(action->path) < 0 ? -errno : 0;
    case DO_FCHDIR:
        return fchdir(action->fd) < 0 ? -errno : 0;
    case DO_CLOSEFROM:
        closefrom(action->fd);
        return 0;
    case DO_TCSETPGRP:
        flags = (int)FAN_SYS(getpgid, 0);
        return (int)FAN_SYS(ioctl, action->fd, TIOCSPGRP, &flags);
    }
    return -EINVAL;
}

/* Resets signals, because no handler of the parent may run in memory that both share. */
static void reset_signals(const sigset_t *defaults)
{
    static const struct sigaction plain; /* all zeros mean the default action */
    for (int number = 1; number < NSIG; number++) {
        struct sigaction now;
        if (fan_kernel_sigaction(number, NULL, &now) != 0)
            continue;
        bool caught = now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN;
        bool wanted = defaults != NULL && sigismember(defaults, number) == 1;
        if (caught || (wanted && now.sa_handler == SIG_IGN))
            fan_kernel_sigaction(number, &plain, NULL);
    }
}

static int set_scheduling(const posix_spawnattr_t *attributes, short flags)
{
    struct sched_param parameter;
    int policy;
    posix_spawnattr_getschedparam(attributes, &parameter);
    posix_spawnattr_getschedpolicy(attributes, &policy);
    if (flags & POSIX_SPAWN_SETSCHEDULER)
        return (int)FAN_SYS(sched_setscheduler, 0, policy, &parameter);
    return flags & POSIX_SPAWN_SETSCHEDPARAM ? (int)FAN_SYS(sched_setparam, 0, &parameter) : 0;
}

static int set_attributes(const posix_spawnattr_t *attributes, sigset_t *mask)
{
    short flags = 0;
    pid_t group = 0;
    sigset_t defaults;
    if (attributes != NULL) {
        posix_spawnattr_getflags(attributes, &flags);
        posix_spawnattr_getpgroup(attributes, &group);
        posix_spawnattr_getsigdefault(attributes, &defaults);
        if (flags & POSIX_SPAWN_SETSIGMASK)
            posix_spawnattr_getsigmask(attributes, mask);
    }
    reset_signals(flags & POSIX_SPAWN_SETSIGDEF ? &defaults : NULL);
    long rc = attributes != NULL ? set_scheduling(attributes, flags) : 0;
    if (rc == 0 && (flags & POSIX_SPAWN_SETSID))
        rc = FAN_SYS(setsid);
    if (rc >= 0 && (flags & POSIX_SPAWN_SETPGROUP))
        rc = FAN_SYS(setpgid, 0, group);
    long user = FAN_SYS(getuid), own_group = FAN_SYS(getgid);
    if (rc >= 0 && (flags & POSIX_SPAWN_RESETIDS))
        rc = FAN_SYS(setresuid, -1, user, -1);
    if (rc >= 0 && (flags & POSIX_SPAWN_RESETIDS))
        rc = FAN_SYS(setresgid, -1, own_group, -1);
    return rc < 0 ? (int)rc : 0;
}

/* Runs in the child: performs the actions and starts the program. Never returns to its caller. */
static __attribute__((noinline)) int obey(struct order *order)
{
    int rc = set_attributes(order->attributes, &order->mask);
    int used = order->actions != NULL ? order->actions->__used : 0;
    for (int i = 0; rc == 0 && i < used; i++)
        rc = perform(&entries(order->actions)[i]);
    if (rc != 0)
        return rc;
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &order->mask, NULL, sizeof(uint64_t));
    return fan_start(&order->program, order->argv, order->env);
}

static __attribute__((noinline)) pid_t start_child(struct order *order)
{
    pid_t pid = vfork();
    if (pid == 0) {
        order->error = -obey(order);
        _exit(127);
    }
    return pid;
}

/* Returns the descriptor number that an action makes in the child, or -1. */
static int given_out(const struct action *action)
{
    return action->tag == DO_OPEN ? action->fd : action->tag == DO_DUP2 ? action->to : -1;
}

/* Moves the library's descriptors away from the numbers that the child will use, because the child
 * cannot move them. */
static void make_room(const posix_spawn_file_actions_t *actions)
{
    int used = actions != NULL ? actions->__used : 0, highest = -1;
    fan_file_before_vfork(); /* descriptors that the child needs get their places first */
    for (int i = 0; i < used; i++) {
        int fd = given_out(&entries(actions)[i]);
        highest = fd > highest ? fd : highest;
    }
    for (int i = 0; i < used; i++)
        fan_vacate(given_out(&entries(actions)[i]), highest);
}

static int spawn(pid_t *pid, const struct fan_program *program,
                 const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                 char *const argv[], char *const env[])
{
    struct order order = {.program = *program,
                          .actions = actions,
                          .attributes = attributes,
                          .argv = argv,
                          .env = env};
    sigset_t all;
    int saved = errno, cancel, error;
    memset(&all, 0xff, sizeof(all));
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    FAN_SYS(rt_sigprocmask, SIG_BLOCK, &all, &order.mask, sizeof(uint64_t));
    sigset_t before = order.mask;
    make_room(order.actions);
    pid_t child = start_child(&order);
    error = child < 0 ? errno : order.error;
    if (child > 0 && error != 0)
        FAN_SYS(wait4, child, NULL, 0, NULL);
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof(uint64_t));
    pthread_setcancelstate(cancel, NULL);
    if (error == 0 && pid != NULL)
        *pid = child;
    errno = saved;
    return error;
}

/* Declared by glibc since 2.39. */
int pidfd_spawn(int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const argv[], char *const env[]);
int pidfd_spawnp(int *pidfd, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const argv[], char *const env[]);

/* Opens a descriptor of a child that was just started and not yet waited for. Returns 0 or an
 * errno. */
static int describe_child(int error, pid_t pid, int *pidfd)
{
    long fd = error == 0 ? FAN_SYS(pidfd_open, pid, 0) : -error;
    if (fd < 0)
        return (int)-fd;
    *pidfd = (int)fd;
    return 0;
}

/* Defines the two forms of a call, which return the child's process number or a descriptor of the
 * child. */
#define SPAWN(call, sought)                                                                        \
    FAN_EXPORT int posix_##call(                                                                   \
        pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,                   \
        const posix_spawnattr_t *attributes, char *const argv[], char *const env[])                \
    {                                                                                              \
        const struct fan_program program = {.how = sought, .name = path};                          \
        if (fan_job.view_count == 0)                                                               \
            return REAL(posix_##call)(pid, path, actions, attributes, argv, env);                  \
        return spawn(pid, &program, actions, attributes, argv, env);                               \
    }                                                                                              \
                                                                                                   \
    FAN_EXPORT int pidfd_##call(                                                                   \
        int *pidfd, const char *path, const posix_spawn_file_actions_t *actions,                   \
        const posix_spawnattr_t *attributes, char *const argv[], char *const env[])                \
    {                                                                                              \
        pid_t pid = 0;                                                                             \
        int error = posix_##call(&pid, path, actions, attributes, argv, env);                      \
        return describe_child(error, pid, pidfd);                                                  \
    }

SPAWN(spawn, FAN_START_PATH)
SPAWN(spawnp, FAN_START_SEARCH)
