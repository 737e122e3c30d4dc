/* Prototypes of exported names that no public header declares. */
#pragma once

#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>
#include <wchar.h>

int posix_spawn_file_actions_addchdir(posix_spawn_file_actions_t *actions, const char *path);
int posix_spawn_file_actions_addfchdir(posix_spawn_file_actions_t *actions, int fd);
int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *actions, int from);
int posix_spawn_file_actions_addtcsetpgrp_np(posix_spawn_file_actions_t *actions, int fd);
/* Newer headers than those of glibc 2.28 declare these. */
#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1U << 1)
#endif
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
pid_t _Fork(void);
int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void), void (*at_end)(void),
                      void *stack_end);
const char *__asan_default_options(void);
void closefrom(int first);
int close_range(unsigned first, unsigned last, int flags);
int execveat(int dirfd, const char *path, char *const argv[], char *const env[], int flags);
struct open_how;
int openat2(int dirfd, const char *path, const struct open_how *how, size_t bytes);
int __open_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device);
char *__getwd_chk(char *buffer, size_t room);
int epoll_pwait2(int fd, struct epoll_event *events, int most, const struct timespec *timeout,
                 const sigset_t *mask);
void __chk_fail(void) __attribute__((noreturn));
