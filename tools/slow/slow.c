/*
 * Makes a shared file system slow, on one machine: delays reads below SLOW_DIR so that they take as
 * long as SLOW_BYTES per second in all, and SLOW_LATENCY_US each, allow. For `LD_PRELOAD=...
 * fanstore run`: delays the node daemons' reads with pread(2). Programs under FanStore are not
 * delayed, because their own reads do not go through libc. All processes with one file SLOW_STATE
 * share the rate.
 *
 * SLOW_BYTES is one rate, or rates by the number of readers, 1:100000000,8:400000000: linear
 * between these points and constant beyond them. A reader that is killed while it waits counts as a
 * reader until the file SLOW_STATE is removed.
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

enum { SECOND_NS = 1000000000, POINTS_MAX = 16 };

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

/* Shared by all processes. end_ns: when all reads so far will be done; readers: how many wait. */
struct line {
    uint64_t end_ns;
    uint32_t readers;
};

static struct line *the_line(void)
{
    static struct line *shared;
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

static void refuse(const char *name, const char *why)
{
    const char *value = getenv(name);
    fprintf(stderr, "slow: %s=%s: %s\n", name, value != NULL ? value : "", why);
    _exit(2);
}

struct point {
    double readers;
    double rate;
};

/* Parses the points of a curve, which are sorted. Returns how many there are. A single rate is a
 * point for one reader. */
static unsigned parse(const char *curve, struct point points[POINTS_MAX])
{
    unsigned count = 0;
    char *end;
    for (const char *at = curve; at != NULL && *at != '\0'; at = *end == ',' ? end + 1 : end) {
        struct point point = {1, strtod(at, &end)};
        if (*end == ':') {
            point.readers = point.rate;
            at = end + 1;
            point.rate = strtod(at, &end);
        } else if (*end != '\0' || count > 0) {
            refuse("SLOW_BYTES", "neither a rate nor points such as 1:1000,8:4000");
        }
        double before = count > 0 ? points[count - 1].readers : 0;
        if (end == at || (*end != ',' && *end != '\0') || point.readers <= before ||
            point.rate <= 0 || count == POINTS_MAX)
            refuse("SLOW_BYTES", "neither a rate nor points such as 1:1000,8:4000");
        points[count++] = point;
    }
    return count;
}

/* Returns the bytes per second of all readers together; 0: no limit. `curve`: as SLOW_BYTES. */
double slow_rate(const char *curve, unsigned readers)
{
    struct point points[POINTS_MAX];
    unsigned count = parse(curve, points), above = 0;
    while (above < count && points[above].readers < readers)
        above++;
    if (count == 0)
        return 0;
    if (above == 0 || above == count)
        return points[above == 0 ? 0 : count - 1].rate;
    struct point low = points[above - 1], high = points[above];
    double part = (readers - low.readers) / (high.readers - low.readers);
    return low.rate + (high.rate - low.rate) * part;
}

static int is_slow(int fd)
{
    char link[32], path[PATH_MAX];
    const char *dir = getenv("SLOW_DIR");
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t bytes = dir != NULL ? readlink(link, path, sizeof(path) - 1) : -1;
    return bytes > 0 && strncmp(path, dir, strlen(dir)) == 0;
}

/* Takes a place behind all reads so far. Returns when this read is done. */
static uint64_t take_place(struct line *line, uint64_t bytes, double rate)
{
    uint64_t begun_ns = now_ns(), until_ns;
    uint64_t seen = __atomic_load_n(&line->end_ns, __ATOMIC_RELAXED);
    do {
        until_ns = (seen > begun_ns ? seen : begun_ns) + (uint64_t)((double)bytes * 1e9 / rate);
    } while (!__atomic_compare_exchange_n(&line->end_ns, &seen, until_ns, 0, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED));
    return until_ns;
}

static void sleep_until(uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / SECOND_NS),
                             .tv_nsec = (long)(until_ns % SECOND_NS)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void wait_for(uint64_t bytes)
{
    struct line *line = the_line();
    uint64_t latency_ns = number("SLOW_LATENCY_US") * 1000;
    if (line == NULL && getenv("SLOW_BYTES") != NULL)
        refuse("SLOW_STATE", "is no file that can be made, which SLOW_BYTES needs");
    if (line == NULL) {
        sleep_until(now_ns() + latency_ns);
        return;
    }
    uint32_t readers = __atomic_add_fetch(&line->readers, 1, __ATOMIC_RELAXED);
    double rate = slow_rate(getenv("SLOW_BYTES"), readers);
    sleep_until((rate > 0 ? take_place(line, bytes, rate) : now_ns()) + latency_ns);
    __atomic_sub_fetch(&line->readers, 1, __ATOMIC_RELAXED);
}

/* Replaces libc's pread. */
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
