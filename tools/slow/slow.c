/*
 * A shared file system that is slow, on one machine: reads below SLOW_DIR take as long as
 * SLOW_BYTES a second in all, and SLOW_LATENCY_US each, allow. For `LD_PRELOAD=... fanstore run`:
 * what the node daemons read there with pread(2) is held up; programs under FanStore are not, since
 * what they read of it by themselves goes past libc. All processes with one SLOW_STATE, a file,
 * share the rate.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SECOND_NS = 1000000000 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

static uint64_t number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* Until when all that was read so far takes; of all processes. */
static uint64_t *line_end(void)
{
    static uint64_t *shared;
    const char *path = getenv("SLOW_STATE");
    if (shared != NULL || path == NULL)
        return shared;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(*shared)) != 0)
        return NULL;
    void *made = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return shared = made == MAP_FAILED ? NULL : made;
}

static int is_slow(int fd)
{
    char link[32], path[PATH_MAX];
    const char *dir = getenv("SLOW_DIR");
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t bytes = dir != NULL ? readlink(link, path, sizeof(path) - 1) : -1;
    return bytes > 0 && strncmp(path, dir, strlen(dir)) == 0;
}

/* Waits in line behind all that is being read. */
static void wait_for(uint64_t bytes)
{
    uint64_t *end = line_end(), rate = number("SLOW_BYTES");
    uint64_t begun_ns = now_ns(), until_ns = begun_ns;
    if (end != NULL && rate > 0) {
        uint64_t seen = __atomic_load_n(end, __ATOMIC_RELAXED);
        do {
            until_ns = (seen > begun_ns ? seen : begun_ns) + bytes * SECOND_NS / rate;
        } while (!__atomic_compare_exchange_n(end, &seen, until_ns, 0, __ATOMIC_RELAXED,
                                              __ATOMIC_RELAXED));
    }
    until_ns += number("SLOW_LATENCY_US") * 1000;
    struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
                             .tv_nsec = (long)(until_ns % SECOND_NS)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/* Takes the place of libc's. */
ssize_t pread(int fd, void *to, size_t bytes, off_t offset)
{
    if (is_slow(fd))
        wait_for(bytes);
    return (ssize_t)syscall(SYS_pread64, fd, to, bytes, offset);
}

ssize_t pread64(int fd, void *to, size_t bytes, off_t offset)
{
    return pread(fd, to, bytes, offset);
}
