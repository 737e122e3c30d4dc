/* The exec family, under all its names. */
#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "../client/filetable.h"
#include "../client/outputs.h"
#include "../client/resolve.h"
#include "../common/sys.h"
#include "real.h"
#include "start.h"

FAN_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
    if (fan_job.view_count == 0)
        return REAL(execve)(path, argv, env);
    return (int)fan_answer(fan_start(FAN_START_PATH, path, argv, env));
}

FAN_EXPORT int execv(const char *path, char *const argv[])
{
    return execve(path, argv, environ);
}

FAN_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
    if (fan_job.view_count == 0)
        return REAL(execvpe)(file, argv, env);
    return (int)fan_answer(fan_start(FAN_START_SEARCH_SHELL, file, argv, env));
}

FAN_EXPORT int execvp(const char *file, char *const argv[])
{
    return execvpe(file, argv, environ);
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

/* The path of an open program, for execve. The length or -errno. */
static int64_t program_path(int fd, char *path, size_t capacity)
{
    static const char way[] = "/proc/self/fd/";
    const struct fan_file *file = fan_file_get(fd);
    if (file != NULL && file->record != NULL)
        return fan_full_path(file->view, file->dataset, file->id, path, capacity);
    int flags = fan_sys_fcntl(fd, F_GETFD, 0);
    if (flags < 0)
        return flags;
    size_t length = sizeof(way) - 1;
    __builtin_memcpy(path, way, length);
    unsigned number = (unsigned)fd, unit = 1;
    while (number / unit >= 10)
        unit *= 10;
    for (; unit > 0; unit /= 10)
        path[length++] = (char)('0' + number / unit % 10);
    path[length] = '\0';
    return (int64_t)length;
}

FAN_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
    char path[PATH_MAX];
    if (fan_job.view_count == 0)
        return REAL(fexecve)(fd, argv, env);
    int64_t length = program_path(fd, path, sizeof(path));
    return length < 0 ? (int)fan_answer(length) : execve(path, argv, env);
}

FAN_EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const env[],
                        int flags)
{
    struct fan_target target;
    char full[PATH_MAX];
    if (flags & AT_EMPTY_PATH && path[0] == '\0')
        return fexecve(dirfd, argv, env);
    if (!fan_locate(dirfd, path, flags & AT_SYMLINK_NOFOLLOW ? FAN_NOFOLLOW : 0, &target)) {
        fan_output_before_exec();
        long rc = FAN_SYS(execveat, target.dirfd, target.path, argv, env, flags);
        fan_output_after_failed_exec();
        return (int)fan_answer(rc);
    }
    int64_t length = fan_target_path(&target, full, sizeof(full));
    return length < 0 ? (int)fan_answer(length) : execve(full, argv, env);
}
