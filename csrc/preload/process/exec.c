/* The exec family, with all its variants. */
#include <alloca.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <unistd.h>

#include "../../client/files/filetable.h"
#include "../../client/paths/resolve.h"
#include "../../common/sys.h"
#include "../real.h"
#include "../undeclared.h"
#include "start.h"

FAN_EXPORT int execve(const char *path, char *const argv[], char *const env[])
{
    if (fan_job.view_count == 0)
        return REAL(execve)(path, argv, env);
    const struct fan_program program = {.how = FAN_START_PATH, .name = path};
    return (int)fan_answer(fan_start(&program, argv, env));
}

FAN_EXPORT int execvpe(const char *file, char *const argv[], char *const env[])
{
    if (fan_job.view_count == 0)
        return REAL(execvpe)(file, argv, env);
    const struct fan_program program = {.how = FAN_START_SEARCH_SHELL, .name = file};
    return (int)fan_answer(fan_start(&program, argv, env));
}

/* Collects the arguments of execl and its relatives, including the NULL. */
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
    return execve(path, argv, environ);
}

FAN_EXPORT int execlp(const char *file, const char *first, ...)
{
    COLLECT(first, first);
    va_end(list);
    return execvpe(file, argv, environ);
}

FAN_EXPORT int execle(const char *path, const char *first, ...)
{
    COLLECT(first, first);
    char *const *env = va_arg(list, char *const *);
    va_end(list);
    return execve(path, argv, env);
}

/* Starts a file of ours by its path, because the kernel cannot find it by the descriptor. */
static int start_descriptor(int fd, char *const argv[], char *const env[])
{
    char path[PATH_MAX];
    const struct fan_file *file = fan_file_get(fd);
    struct fan_program program = {
        .how = FAN_START_AT, .name = "", .dirfd = fd, .flags = AT_EMPTY_PATH};
    if (file != NULL && file->record != NULL) {
        int64_t length = fan_full_path(file->view, file->dataset, file->id, path, sizeof(path));
        if (length < 0)
            return (int)length;
        program = (struct fan_program){.how = FAN_START_PATH, .name = path};
    }
    return fan_start(&program, argv, env);
}

FAN_EXPORT int fexecve(int fd, char *const argv[], char *const env[])
{
    if (fan_job.view_count == 0)
        return REAL(fexecve)(fd, argv, env);
    if (fd < 0 || argv == NULL || env == NULL)
        return (int)fan_answer(-EINVAL);
    return (int)fan_answer(start_descriptor(fd, argv, env));
}

FAN_EXPORT int execveat(int dirfd, const char *path, char *const argv[], char *const env[],
                        int flags)
{
    struct fan_program program = {
        .how = FAN_START_AT, .name = path, .dirfd = dirfd, .flags = flags};
    if (fan_job.view_count == 0)
        return (int)fan_answer(FAN_SYS(execveat, dirfd, path, argv, env, flags));
    if ((flags & AT_EMPTY_PATH) && fan_given(path) && path[0] == '\0' && dirfd != AT_FDCWD)
        return (int)fan_answer(start_descriptor(dirfd, argv, env));
    return (int)fan_answer(fan_start(&program, argv, env));
}
