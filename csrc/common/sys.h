/*
 * Makes system calls without libc: without errno or cancellation, and without a symbol that a
 * preload library could intercept. Each function returns the kernel's result, which is -errno on
 * failure. Safe in signal handlers, after fork and in a vfork child.
 *
 * Calls of up to five arguments carry a mark in the sixth, which the kernel ignores: the filter of
 * `--trap` (csrc/trap) does not catch calls with the mark. The register is cleared after each call,
 * so that no call of the program itself carries the mark.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include "syscall_numbers.h"

#define FAN_SYS_MARK 0x5f46616e53746f72L

#if defined(__x86_64__)
static inline long fan_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    long ret;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall\n\txorl %%r9d, %%r9d"
                     : "=a"(ret), "+r"(r9)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
                     : "rcx", "r11", "memory", "cc");
    return ret;
}
#elif defined(__aarch64__)
static inline long fan_sys6(long n, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0\n\tmov x5, xzr"
                     : "+r"(x0), "+r"(x5)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
                     : "memory");
    return x0;
}
#else
#    error "FanStore runs on x86_64 and aarch64"
#endif

#define FAN_SYS(name, ...)                                                                         \
    FAN_SYS_PAD(FAN_SYS_COUNT(__VA_ARGS__), SYS_##name, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define FAN_SYS_PAD(count, n, a, b, c, d, e, f, ...)                                               \
    fan_sys6(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),                             \
             (count) == 6 ? (long)(f) : FAN_SYS_MARK)
#define FAN_SYS_COUNT(...) FAN_SYS_COUNT_OF(0, ##__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)
#define FAN_SYS_COUNT_OF(zero, a, b, c, d, e, f, count, ...) count

static inline int fan_sys_openat(int dirfd, const char *path, int flags, unsigned mode)
{
    return (int)FAN_SYS(openat, dirfd, path, flags, mode);
}

static inline int fan_sys_close(int fd)
{
    return (int)FAN_SYS(close, fd);
}

static inline int fan_sys_fcntl(int fd, int command, long argument)
{
    return (int)FAN_SYS(fcntl, fd, command, argument);
}

static inline long fan_sys_pread(int fd, void *buffer, size_t bytes, int64_t offset)
{
    return FAN_SYS(pread64, fd, buffer, bytes, offset);
}

/* Repeats pread(2) until all bytes are read. Returns 0; -EIO, also if the file ends too early; or
 * -EFAULT. */
static inline int fan_sys_read_full(int fd, void *to, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        long got = fan_sys_pread(fd, (char *)to + done, bytes - done, (int64_t)(offset + done));
        if (got <= 0 && got != -EINTR)
            return got == -EFAULT ? -EFAULT : -EIO;
        done += got > 0 ? (size_t)got : 0;
    }
    return 0;
}

/* Returns the mapping, or -errno (-4095 to -1). */
static inline long fan_sys_mmap(void *at, size_t bytes, int prot, int flags, int fd,
                                int64_t offset)
{
    return FAN_SYS(mmap, at, bytes, prot, flags, fd, offset);
}

static inline int fan_sys_munmap(void *at, size_t bytes)
{
    return (int)FAN_SYS(munmap, at, bytes);
}

/* Makes the kernel begin to read mapped bytes that are not in memory. A page that is touched would
 * make it read read_ahead_kb around the page. In steps, because it ignores the rest of a range that
 * is longer than the larger of read_ahead_kb and max_sectors_kb. at: the start of a page. */
static inline void fan_sys_begin_reading(const char *at, size_t bytes)
{
    const size_t step = 128 << 10;
    for (size_t done = 0; done < bytes; done += step)
        FAN_SYS(madvise, at + done, bytes - done < step ? bytes - done : step, MADV_WILLNEED);
}

static inline int fan_sys_failed(long answer)
{
    return (unsigned long)answer >= (unsigned long)-4095L;
}

/* Maps zeroed private memory, in whole pages; fan_sys_munmap frees it. Returns NULL if there is
 * none. */
static inline void *fan_sys_memory(size_t bytes)
{
    long at = fan_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return fan_sys_failed(at) ? NULL : (void *)at;
}

/* Stores mapped memory (NULL if there was none) at `place`, the address of an atomic pointer that
 * is NULL at first. If another thread has stored memory there already, unmaps `made`. Returns the
 * memory to use: NULL, or the pointer at `place`. */
static inline void *fan_sys_publish(void *place, void *made, size_t bytes)
{
    void *expected = NULL;
    if (made == NULL || __atomic_compare_exchange_n((void **)place, &expected, made, 0,
                                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        return made;
    fan_sys_munmap(made, bytes);
    return expected;
}

/* Does readlink(2): writes as much of the target as fits, and a NUL. Returns its length or
 * -errno. */
static inline long fan_sys_readlink(int dirfd, const char *path, char *to, size_t capacity)
{
    long length = FAN_SYS(readlinkat, dirfd, path, to, capacity - 1);
    to[length > 0 ? length : 0] = '\0';
    return length;
}

/* Reads as much of a file from its beginning as fits, and adds a NUL. Returns the length or
 * -errno. */
static inline long fan_sys_read_text(const char *path, char *to, size_t capacity)
{
    int fd = fan_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    long length = fd < 0 ? fd : fan_sys_pread(fd, to, capacity - 1, 0);
    if (fd >= 0)
        fan_sys_close(fd);
    to[length > 0 ? length : 0] = '\0';
    return length;
}
