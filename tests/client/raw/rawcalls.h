/* Files by the instruction `syscall`, number and arguments loaded as rustc and gcc load them. */
#pragma once

#include <sys/syscall.h>

#ifndef SYS_fchmodat2
#    define SYS_fchmodat2 452
#endif

#define CALL(result, number, a, b, c, d, e)                                                        \
    do {                                                                                           \
        register long r10 __asm__("r10") = (long)(d);                                              \
        register long r8 __asm__("r8") = (long)(e);                                                \
        __asm__ volatile("syscall"                                                                 \
                         : "=a"(result)                                                            \
                         : "a"(number), "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(r10),  \
                           "r"(r8)                                                                 \
                         : "rcx", "r11", "memory");                                                \
    } while (0)

/* Rust's standard library asks libc for these. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));
__attribute__((used)) static int (*const asks_for)(void (*)(void *), void *, void *) =
    __cxa_thread_atexit_impl;
extern int __xpg_strerror_r(int, char *, unsigned long) __attribute__((weak));
__attribute__((used)) static int (*const asks_too)(int, char *, unsigned long) = __xpg_strerror_r;

enum { HERE = -100 };

static __attribute__((noinline)) long raw_open(const char *path, long flags, long mode)
{
    long rc;
    CALL(rc, SYS_openat, HERE, path, flags, mode, 0);
    return rc;
}

static __attribute__((noinline)) long raw_read(long fd, void *to, long bytes)
{
    long rc;
    CALL(rc, SYS_read, fd, to, bytes, 0, 0);
    return rc;
}

static __attribute__((noinline)) long raw_write(long fd, const void *from, long bytes)
{
    long rc;
    CALL(rc, SYS_write, fd, from, bytes, 0, 0);
    return rc;
}

static __attribute__((noinline)) long raw_close(long fd)
{
    long rc;
    CALL(rc, SYS_close, fd, 0, 0, 0, 0);
    return rc;
}

static __attribute__((noinline)) long raw_rename(const char *from, const char *to)
{
    long rc;
    CALL(rc, SYS_renameat, HERE, from, HERE, to, 0);
    return rc;
}

static __attribute__((noinline)) long raw_mkdir(const char *path)
{
    long rc;
    CALL(rc, SYS_mkdirat, HERE, path, 0755, 0, 0);
    return rc;
}

static __attribute__((noinline)) long raw_unlink(const char *path, long flags)
{
    long rc;
    CALL(rc, SYS_unlinkat, HERE, path, flags, 0, 0);
    return rc;
}

static __attribute__((noinline)) long raw_seek(long fd, long offset)
{
    long rc;
    CALL(rc, SYS_lseek, fd, offset, 2, 0, 0);
    return rc;
}

static __attribute__((noinline)) long raw_statx(const char *path, void *to)
{
    long rc;
    CALL(rc, SYS_statx, HERE, path, 0, 0x7ff, to);
    return rc;
}

static __attribute__((noinline)) long raw_list(long fd, void *to, long bytes)
{
    long rc;
    CALL(rc, SYS_getdents64, fd, to, bytes, 0, 0);
    return rc;
}

static __attribute__((noinline)) long raw_link(const char *path, char *to, long bytes)
{
    long rc;
    CALL(rc, SYS_readlinkat, HERE, path, to, bytes, 0);
    return rc;
}

/* A call of another number, named raw_NAME: five arguments, those that it does not have are 0. */
#define RAW(name)                                                                                  \
    static __attribute__((noinline)) long raw_##name(long a, long b, long c, long d, long e)       \
    {                                                                                              \
        long rc;                                                                                   \
        CALL(rc, SYS_##name, a, b, c, d, e);                                                       \
        return rc;                                                                                 \
    }

RAW(getxattr)
RAW(lgetxattr)
RAW(listxattr)
RAW(llistxattr)
RAW(setxattr)
RAW(lsetxattr)
RAW(removexattr)
RAW(lremovexattr)
RAW(inotify_add_watch)
RAW(name_to_handle_at)
RAW(fchmodat2)
