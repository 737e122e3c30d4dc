/* Processes: fork, vfork, and the shells that libc starts itself. */
#include <alloca.h>
#include <errno.h>
#include <pty.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <utmp.h>

#include "../../client/handoff/handoff.h"
#include "../../client/paths/cwd.h"
#include "../../client/files/filetable.h"
#include "../../client/open/open.h"
#include "../../client/outputs/outputs.h"
#include "../../client/files/overlay.h"
#include "../../common/sys.h"
#include "../real.h"
#include "../undeclared.h"
#include "environment.h"

/* A seccomp filter may kill the program for system calls that it does not expect. When the program
 * sets one, the library stops making such calls (fan_restrict). */
FAN_EXPORT int prctl(int option, ...)
{
    unsigned long given[4];
    va_list list;
    va_start(list, option);
    for (unsigned i = 0; i < 4; i++)
        given[i] = va_arg(list, unsigned long);
    va_end(list);
    if (option == PR_SET_SECCOMP)
        fan_restrict();
    return REAL(prctl)(option, given[0], given[1], given[2], given[3]);
}

/* Functions that no header declares. */
pid_t __fork(void);
int __clone(int (*function)(void *), void *stack, int flags, void *argument, ...);
FILE *_IO_popen(const char *command, const char *mode);

FAN_EXPORT pid_t fork(void)
{
    fan_process_watch_forks(); /* a constructor may fork before main */
    pid_t pid = REAL(fork)();
    if (pid < 0 && fan_job.view_count > 0)
        fan_file_after_failed_fork();
    return pid;
}

/* _Fork runs no fork handlers. */
FAN_EXPORT pid_t _Fork(void)
{
    if (fan_job.view_count > 0)
        fan_file_before_fork();
    pid_t pid = REAL(_Fork)();
    if (fan_job.view_count > 0 && pid == 0)
        fan_process_after_fork_child();
    if (fan_job.view_count > 0 && pid < 0)
        fan_file_after_failed_fork();
    return pid;
}

/* Starts the overlay and returns the real call, to which the assembly below jumps: vfork returns
 * twice from the same frame. */
void *fan_vfork_begin(void) __attribute__((visibility("hidden"), used));
void *fan_vfork_begin(void)
{
    if (fan_job.view_count > 0) {
        fan_file_before_vfork();
        fan_overlay_arm();
    }
    return (void *)REAL(vfork);
}

#if defined(__x86_64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, @function\n"
        "vfork:\n"
        "    sub $8, %rsp\n"
        "    call fan_vfork_begin\n"
        "    add $8, %rsp\n"
        "    jmp *%rax\n"
        ".size vfork, . - vfork\n"
        ".globl __vfork\n"
        ".set __vfork, vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    bl fan_vfork_begin\n"
        "    ldp x29, x30, [sp], #16\n"
        "    mov x16, x0\n" /* a jump by another register may not enter guarded pages of libc */
        "    br x16\n"
        ".size vfork, . - vfork\n"
        ".globl __vfork\n"
        ".set __vfork, vfork\n");
#endif

/* Keeps a child that shares memory out of this thread's lane. Unless it is a thread, it also shares
 * the thread-local memory, and would write to this lane. A child for which this thread waits may do
 * so if this thread has a lane. */
static void share_lane(int flags)
{
    if (fan_job.view_count == 0 || (flags & (CLONE_VM | CLONE_SETTLS)) != CLONE_VM)
        return;
    if (flags & CLONE_VFORK)
        fan_lane_is_own();
    else
        fan_lane_share();
}

/* Always reads the three arguments behind `argument`, given or not, as libc does. */
FAN_EXPORT int clone(int (*function)(void *), void *stack, int flags, void *argument, ...)
{
    va_list more;
    va_start(more, argument);
    pid_t *parent_tid = va_arg(more, pid_t *);
    void *thread_memory = va_arg(more, void *);
    pid_t *child_tid = va_arg(more, pid_t *);
    va_end(more);
    share_lane(flags);
    return REAL(clone)(function, stack, flags, argument, parent_tid, thread_memory, child_tid);
}

/* libc starts a shell itself, with the environment as it is. So while it starts one, environ is
 * replaced by the environment that programs get from this library. */
struct lent {
    struct fan_environment environment;
    char **before;
    bool lent;
};

/* Returns 1 if environ can be replaced, 0 if it need not be, -EIO if no shell may be started. */
static int can_lend(struct lent *lent)
{
    int rc = fan_job.view_count > 0 ? fan_environment_measure(&lent->environment, environ) : -E2BIG;
    lent->lent = rc == 0;
    return rc == -EIO ? rc : lent->lent;
}

static void lend(struct lent *lent, void *memory)
{
    if (!lent->lent)
        return;
    fan_file_before_vfork();
    lent->environment.counted = true;
    fan_environment_fill(&lent->environment, memory, environ);
    lent->before = environ;
    environ = lent->environment.entries;
}

static void take_back(struct lent *lent)
{
    if (!lent->lent)
        return;
    if (environ == lent->environment.entries)
        environ = lent->before;
    fan_handoff_done();
}

FAN_EXPORT int system(const char *command)
{
    struct lent lent = {.lent = false};
    int rc = command != NULL ? can_lend(&lent) : 0;
    if (rc < 0)
        return (int)fan_answer(rc);
    lend(&lent, rc > 0 ? alloca(lent.environment.bytes) : NULL);
    int status = REAL(system)(command);
    take_back(&lent);
    return status;
}

FAN_EXPORT FILE *popen(const char *command, const char *mode)
{
    struct lent lent = {.lent = false};
    int rc = can_lend(&lent);
    if (rc < 0) {
        errno = -rc;
        return NULL;
    }
    lend(&lent, rc > 0 ? alloca(lent.environment.bytes) : NULL);
    FILE *stream = REAL(popen)(command, mode);
    take_back(&lent);
    return stream;
}

/* Forgets descriptors 0, 1 and 2, which libc replaces without calling this library. */
static void forget_standard(void)
{
    if (fan_job.view_count > 0)
        fan_file_remove_range(0, 2);
}

/* The end of the process finishes outputs that are still open: the daemon is told that it ends
 * normally. */
FAN_EXPORT void _exit(int status)
{
    fan_output_at_exit();
    FAN_SYS(exit_group, status);
    __builtin_unreachable();
}

FAN_EXPORT void quick_exit(int status)
{
    fan_output_at_exit();
    REAL(quick_exit)(status);
    __builtin_unreachable();
}

FAN_EXPORT int daemon(int stay, int keep)
{
    int rc = REAL(daemon)(stay, keep);
    if (rc == 0 && !stay)
        fan_cwd_changed();
    if (rc == 0 && !keep)
        forget_standard();
    return rc;
}

/* Before glibc 2.34 these functions are in libutil, which may have been loaded without this library
 * seeing it. */
FAN_EXPORT int login_tty(int terminal)
{
    __typeof__(&login_tty) call = REAL(login_tty);
    int rc = call != NULL ? call(terminal) : (int)fan_answer(-ENOSYS);
    if (rc == 0)
        forget_standard();
    return rc;
}

FAN_EXPORT pid_t forkpty(int *leader, char *name, const struct termios *settings,
                         const struct winsize *size)
{
    __typeof__(&forkpty) call = REAL(forkpty);
    pid_t pid = call != NULL ? call(leader, name, settings, size) : (pid_t)fan_answer(-ENOSYS);
    if (pid == 0)
        forget_standard();
    return pid;
}
