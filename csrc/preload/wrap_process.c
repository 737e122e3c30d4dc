/* Processes: fork, and handing open files on through exec. */
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "../client/filetable.h"
#include "../client/handoff.h"
#include "../client/open.h"
#include "../client/overlay.h"
#include "real.h"

enum { HANDOFF_BYTES = 16384, ARGUMENTS_MAX = 1 << 20 };

FAN_EXPORT pid_t fork(void)
{
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
        fan_file_after_fork_child();
    if (fan_job.view_count > 0 && pid < 0)
        fan_file_after_failed_fork();
    return pid;
}

/* Arms the overlay and finds the real call; the assembly below jumps to it, because vfork's caller
 * returns twice from the same frame. */
void *fan_vfork_begin(void) __attribute__((visibility("hidden"), used));
void *fan_vfork_begin(void)
{
    if (fan_job.view_count > 0)
        fan_overlay_arm();
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
        ".size vfork, . - vfork\n");
#elif defined(__aarch64__)
__asm__(".text\n"
        ".globl vfork\n"
        ".type vfork, %function\n"
        "vfork:\n"
        "    stp x29, x30, [sp, #-16]!\n"
        "    bl fan_vfork_begin\n"
        "    ldp x29, x30, [sp], #16\n"
        "    br x0\n"
        ".size vfork, . - vfork\n");
#endif

static size_t count(char *const list[])
{
    size_t n = 0;
    while (list != NULL && list[n] != NULL)
        n++;
    return n;
}

static bool is_handoff(const char *variable)
{
    const size_t length = sizeof(FAN_HANDOFF_ENV) - 1;
    return strncmp(variable, FAN_HANDOFF_ENV, length) == 0 && variable[length] == '=';
}

/* Copies the environment without an old handoff, and with a new one where there is any. `to` has
 * room for two more; `text` becomes the variable. */
static char **with_handoff(char *const env[], char **to, char *text, bool counted)
{
    const size_t name = sizeof(FAN_HANDOFF_ENV);
    size_t n = 0;
    for (size_t i = 0; env != NULL && env[i] != NULL; i++) {
        if (!is_handoff(env[i]))
            to[n++] = env[i];
    }
    memcpy(text, FAN_HANDOFF_ENV "=", name + 1);
    if (fan_handoff_export(text + name, HANDOFF_BYTES - name, counted) > 0)
        to[n++] = text;
    to[n] = NULL;
    return to;
}

/* A program or script of the mount: the kernel runs a copy. Its descriptor, or -errno. */
static int copy_program(const struct fan_target *target)
{
    if (target->where == FAN_MISSING)
        return -target->error;
    if (!S_ISREG(target->record->mode))
        return S_ISLNK(target->record->mode) ? -ELOOP : -EACCES;
    int rc = fan_permitted(target->dataset, target->id, X_OK, true);
    int from = rc != 0 ? rc : fan_open(target, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return from;
    int to = memfd_create("fanstore-program", 0); /* a script's interpreter opens it after exec */
    ssize_t moved = to < 0 ? -1 : 1;
    while (moved > 0)
        moved = sendfile(to, from, NULL, 1 << 30);
    int error = errno;
    close(from);
    if (moved == 0)
        return to;
    if (to >= 0)
        close(to);
    return -error;
}

typedef int exec_fn(const char *path, char *const argv[], char *const env[]);

static int exec_with(exec_fn *call, const char *path, char *const argv[], char *const env[])
{
    if (fan_job.view_count == 0)
        return call(path, argv, env);
    size_t variables = count(env);
    if (variables > ARGUMENTS_MAX)
        return (int)fan_answer(-E2BIG);
    char **amended = alloca((variables + 2) * sizeof(*amended));
    char text[HANDOFF_BYTES], copy[40];
    struct fan_target target;
    int program = -1;
    if (strchr(path, '/') != NULL && fan_locate(AT_FDCWD, path, 0, &target)) {
        program = copy_program(&target);
        if (program < 0)
            return (int)fan_answer(program);
        snprintf(copy, sizeof(copy), "/proc/self/fd/%d", program);
        path = copy;
    }
    bool counted = fan_in_vfork_child();
    call(path, argv, with_handoff(env, amended, text, counted));
    int error = errno;
    fan_handoff_cancel(counted);
    if (program >= 0)
        close(program);
    return (int)fan_answer(-error);
}

FAN_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
    return exec_with(REAL(execve), path, argv, env);
}

FAN_EXPORT int execv(const char *path, char *const argv[])
{
    return exec_with(REAL(execve), path, argv, environ);
}

FAN_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
    return exec_with(REAL(execvpe), file, argv, env);
}

FAN_EXPORT int execvp(const char *file, char *const argv[])
{
    return exec_with(REAL(execvpe), file, argv, environ);
}

/* Collects the arguments of execl and its kin, up to and with the NULL. */
static size_t collect(const char *first, va_list list, char **argv, size_t room)
{
    size_t n = 0;
    for (const char *argument = first;; argument = va_arg(list, const char *)) {
        if (n < room)
            argv[n] = (char *)argument;
        n++;
        if (argument == NULL)
            return n;
    }
}

#define COLLECT(first, last)                                                                       \
    va_list list;                                                                                  \
    va_start(list, last);                                                                          \
    size_t n = collect(first, list, NULL, 0);                                                      \
    va_end(list);                                                                                  \
    char **argv = alloca(n * sizeof(*argv));                                                       \
    va_start(list, last);                                                                          \
    collect(first, list, argv, n)

FAN_EXPORT int execl(const char *path, const char *first, ...)
{
    COLLECT(first, first);
    va_end(list);
    return execv(path, argv);
}

FAN_EXPORT int execlp(const char *file, const char *first, ...)
{
    COLLECT(first, first);
    va_end(list);
    return execvp(file, argv);
}

FAN_EXPORT int execle(const char *path, const char *first, ...)
{
    COLLECT(first, first);
    char *const *env = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, env);
}

FAN_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
    const struct fan_file *file = fan_file_get(fd);
    char path[PATH_MAX];
    int64_t length = 1;
    if (fan_job.view_count == 0)
        return REAL(fexecve)(fd, argv, env);
    if (file != NULL && file->record != NULL)
        length = fan_full_path(file->view, file->dataset, file->id, path, sizeof(path));
    else
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return length < 0 ? (int)fan_answer(length) : execve(path, argv, env);
}

typedef int spawn_fn(pid_t *, const char *, const posix_spawn_file_actions_t *,
                     const posix_spawnattr_t *, char *const[], char *const[]);

static int spawn_with(spawn_fn *call, pid_t *pid, const char *path,
                      const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                      char *const argv[], char *const env[])
{
    if (fan_job.view_count == 0)
        return call(pid, path, actions, attributes, argv, env);
    size_t variables = count(env);
    if (variables > ARGUMENTS_MAX)
        return E2BIG;
    char **amended = alloca((variables + 2) * sizeof(*amended));
    char text[HANDOFF_BYTES], copy[40];
    struct fan_target target;
    int program = -1;
    if (strchr(path, '/') != NULL && fan_locate(AT_FDCWD, path, 0, &target)) {
        program = copy_program(&target);
        if (program < 0)
            return -program;
        snprintf(copy, sizeof(copy), "/proc/self/fd/%d", program);
        path = copy;
    }
    int error = call(pid, path, actions, attributes, argv, with_handoff(env, amended, text, true));
    if (error != 0)
        fan_handoff_cancel(true);
    else
        fan_handoff_done();
    if (program >= 0)
        close(program);
    return error;
}

FAN_EXPORT int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                           const posix_spawnattr_t *attributes, char *const argv[],
                           char *const env[])
{
    return spawn_with(REAL(posix_spawn), pid, path, actions, attributes, argv, env);
}

FAN_EXPORT int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                            const posix_spawnattr_t *attributes, char *const argv[],
                            char *const env[])
{
    return spawn_with(REAL(posix_spawnp), pid, file, actions, attributes, argv, env);
}

/* libc starts a shell past our wrappers, with the environment as it is. Where a file of ours would
 * be inherited, the handoff is put there for that moment. */
static bool lend_handoff(char *text)
{
    if (fan_job.view_count == 0 || fan_handoff_export(text, HANDOFF_BYTES, true) <= 0)
        return false;
    setenv(FAN_HANDOFF_ENV, text, 1);
    return true;
}

static void take_handoff_back(void)
{
    int saved = errno;
    unsetenv(FAN_HANDOFF_ENV);
    fan_handoff_done();
    errno = saved;
}

FAN_EXPORT int system(const char *command)
{
    char text[HANDOFF_BYTES];
    bool lent = command != NULL && lend_handoff(text);
    int status = REAL(system)(command);
    if (lent)
        take_handoff_back();
    return status;
}

FAN_EXPORT FILE *popen(const char *command, const char *mode)
{
    char text[HANDOFF_BYTES];
    bool lent = lend_handoff(text);
    FILE *stream = REAL(popen)(command, mode);
    if (lent)
        take_handoff_back();
    return stream;
}
