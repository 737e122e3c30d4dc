#include "limits.h"
#include "park.h"
#include "vfork.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/resource.h>

#include "../../common/sys.h"

/* The kernel's descriptor table of a process begins with this many entries, and doubles for a
 * higher descriptor. In a process with threads this waits milliseconds for all processors, and each
 * fork copies the table. */
enum { TABLE_BEGINS = 64 };

enum { MARKED = 1 << 20 };

static _Atomic(atomic_int *) holders[FAN_PARKED_MAX];
static atomic_uint holders_end;             /* no holder is in use from here on */
static _Atomic uint64_t marks[MARKED / 64]; /* one bit for each number that was ever parked */

static bool is_free(int fd)
{
    return fan_sys_fcntl(fd, F_GETFD, 0) == -EBADF;
}

/* Returns the highest free number for which the table need not grow, because a program takes the
 * lowest. Below a limit that is lower still, leaves some room, because shells save descriptors from
 * 10 on. If all numbers down to the middle are taken, the program is about to make the table grow
 * itself. */
static int find_place(void)
{
    struct rlimit limit;
    bool low = FAN_SYS(prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) == 0 &&
               limit.rlim_cur < TABLE_BEGINS;
    int end = low ? (int)limit.rlim_cur : TABLE_BEGINS;
    for (int fd = low ? end - end / 4 : end - 1; fd >= end / 2; fd--) {
        if (is_free(fd))
            return fd;
    }
    return end;
}

static int move_high(int fd)
{
    int high = fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, find_place());
    return high >= 0 ? high : fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void mark(int fd)
{
    if (fd < MARKED)
        atomic_fetch_or(&marks[fd / 64], UINT64_C(1) << fd % 64);
}

/* Finds the entry of a holder, or claims a free one. */
static _Atomic(atomic_int *) *entry_of(atomic_int *holder)
{
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        atomic_int *expected = NULL;
        if (atomic_load(&holders[i]) != holder &&
            !atomic_compare_exchange_strong(&holders[i], &expected, holder))
            continue;
        unsigned end = atomic_load(&holders_end);
        while (end <= i && !atomic_compare_exchange_weak(&holders_end, &end, i + 1)) {
        }
        return &holders[i];
    }
    return NULL;
}

int fan_park(int fd, atomic_int *holder)
{
    int high = fan_restricted() ? fd : move_high(fd); /* a seccomp filter may end the process */
    if (high != fd)
        fan_sys_close(fd);
    if (high < 0 || fan_in_vfork_child())
        return high;
    if (entry_of(holder) == NULL) {
        fan_sys_close(high);
        return -EMFILE;
    }
    mark(high);
    int expected = 0;
    if (!atomic_compare_exchange_strong(holder, &expected, high + 1)) {
        fan_sys_close(high);
        return expected - 1;
    }
    return high;
}

static int held_by(unsigned i)
{
    atomic_int *holder = atomic_load_explicit(&holders[i], memory_order_relaxed);
    return holder != NULL ? fan_parked(holder) : -1;
}

/* Gives the descriptor parked at `fd` the number `high`. Returns 1; 0 if none is parked there
 * (another thread may have moved it); or `high` if that is an -errno. */
static int change_number(int fd, int high)
{
    for (unsigned i = 0, end = atomic_load(&holders_end); i < end && high >= 0; i++) {
        int expected = fd + 1;
        if (held_by(i) != fd)
            continue;
        mark(high);
        if (atomic_compare_exchange_strong(atomic_load(&holders[i]), &expected, high + 1))
            return 1;
    }
    if (high >= 0)
        fan_sys_close(high);
    return high < 0 ? high : 0;
}

int fan_repark(int fd)
{
    if (fan_in_vfork_child()) /* the number is the child's, the holder the parent's */
        return 0;
    int rc = change_number(fd, move_high(fd));
    return rc < 0 ? rc : 0;
}

void fan_vacate(int fd, int above)
{
    if (fan_is_parked(fd) && change_number(fd, fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, above + 1)) == 1)
        fan_sys_close(fd);
}

static bool is_held(int fd)
{
    for (unsigned i = 0, end = atomic_load(&holders_end); i < end; i++) {
        if (held_by(i) == fd)
            return true;
    }
    return false;
}

bool fan_is_parked(int fd)
{
    if (fd < 0)
        return false;
    uint64_t word = fd < MARKED
                        ? atomic_load_explicit(&marks[fd / 64], memory_order_relaxed) >> fd % 64
                        : 1;
    return __builtin_expect(word & 1, 0) && is_held(fd);
}

/* Returns the lowest parked descriptor in [first, last], or last + 1. */
static long next_parked(long first, long last)
{
    long next = last + 1;
    for (unsigned i = 0, end = atomic_load(&holders_end); i < end; i++) {
        long fd = held_by(i);
        if (fd >= first && fd < next)
            next = fd;
    }
    return next;
}

int fan_close_range_around(unsigned first, unsigned last, unsigned flags)
{
    if (first > last)
        return -EINVAL;
    long rc = 0;
    for (long at = first; at <= (long)last && rc == 0;) {
        long stop = next_parked(at, last);
        if (stop > at)
            rc = FAN_SYS(close_range, at, stop - 1, flags);
        at = stop + 1;
    }
    return (int)rc;
}
