/*
 * What the clients of the set "calls" share. Each CASE is a process of its own, started in an empty
 * scratch directory. R is a directory to read from (clients/read_tree.py): of the dataset in the
 * kind "input", made under the mount in the kind "output"; D one to write into, of either kind.
 * What is printed is compared with the same program in a plain directory.
 */
#pragma once

#include "client.h"

#include <sys/types.h>
#include <sys/wait.h>

static __attribute__((unused)) const char *in_r(const char *name)
{
    return *name == '\0' ? getenv("R") : join("R", name);
}

static __attribute__((unused)) const char *in_d(const char *name)
{
    return *name == '\0' ? getenv("D") : join("D", name);
}

static __attribute__((unused)) const char *in_w(const char *name)
{
    return *name == '\0' ? getenv("W") : join("W", name);
}

static __attribute__((unused)) void tell(const char *call, long got, int code)
{
    got == -1 ? SHOW("%s: -1 %s", call, strerrorname_np(code)) : SHOW("%s: %ld", call, got);
}

/* The call's result, and errno where it failed. */
#define TELL(CALL)                                                                                 \
    do {                                                                                           \
        errno = 0;                                                                                 \
        long told = (long) (CALL);                                                                 \
        tell(#CALL, told, errno);                                                                  \
    } while (0)

/* Of a call that gives an error number. */
#define TELL_CODE(CALL) SHOW("%s: %s", #CALL, strerrorname_np(CALL))

/* Of a call that gives a pointer. */
#define TELL_POINTER(CALL)                                                                         \
    do {                                                                                           \
        errno = 0;                                                                                 \
        bool told = (CALL) != NULL;                                                                \
        SHOW("%s: %s", #CALL, told ? "there" : strerrorname_np(errno));                            \
    } while (0)

/* Opens `name` of R for reading; the case is wrong where that fails. */
static __attribute__((unused)) int reader(const char *name)
{
    int fd = open(in_r(name), O_RDONLY);
    OK(fd >= 0);
    return fd;
}

/* Shows up to 40 bytes that a descriptor gives next. */
static __attribute__((unused)) void show_next(const char *label, int fd)
{
    char text[41] = {0};
    errno = 0;
    ssize_t got = read(fd, text, 40);
    SHOW("%s: %zd %s", label, got, got < 0 ? strerrorname_np(errno) : text);
}

/* Shows the file of a path, as a new open finds it. */
static __attribute__((unused)) void show_path(const char *label, const char *path)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0) {
        SHOW("%s: %s", label, strerrorname_np(errno));
        return;
    }
    show_next(label, fd);
    close(fd);
}

static __attribute__((unused)) void put(const char *path, const char *content)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    OK(fd >= 0);
    OK(write(fd, content, strlen(content)) == (ssize_t) strlen(content));
    OK(close(fd) == 0);
}

/* Shows how a child ended. */
static __attribute__((unused)) void show_end(const char *label, pid_t child)
{
    int status = 0;
    if (waitpid(child, &status, 0) != child) {
        SHOW("%s: %s", label, strerrorname_np(errno));
    } else if (WIFSIGNALED(status)) {
        SHOW("%s: signal %d", label, WTERMSIG(status));
    } else {
        SHOW("%s: exit %d", label, WEXITSTATUS(status));
    }
}

/* Runs what follows in a child, and waits for it. */
#define IN_CHILD(LABEL, ...)                                                                       \
    do {                                                                                           \
        fflush(NULL);                                                                              \
        pid_t made = fork();                                                                       \
        if (made == 0) {                                                                           \
            __VA_ARGS__;                                                                           \
            fflush(NULL);                                                                          \
            _exit(contrast_wrong);                                                                 \
        }                                                                                          \
        show_end(LABEL, made);                                                                     \
    } while (0)
