#include "park.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <sys/resource.h>

#include "../common/sys.h"
#include "overlay.h"

static _Atomic(atomic_int *) holders[FAN_PARKED_MAX];
static atomic_int lowest_parked = INT_MAX;

/* Where parking starts: a little under the soft limit, so that the program's own low descriptors
 * and ours do not meet. */
static int park_floor(void)
{
    enum { ROOM = 256 };
    struct rlimit limit;
    if (FAN_SYS(prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0 || limit.rlim_cur > 1 << 20)
        return (1 << 20) - ROOM;
    int soft = (int)limit.rlim_cur;
    return soft > 2 * ROOM ? soft - ROOM : soft - soft / 4;
}

static int move_high(int fd)
{
    int high = fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, park_floor());
    return high >= 0 ? high : fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static void note_lowest(int fd)
{
    int low = atomic_load(&lowest_parked);
    while (fd < low && !atomic_compare_exchange_weak(&lowest_parked, &low, fd)) {
    }
}

/* Finds the entry of a holder, or claims a free one. */
static _Atomic(atomic_int *) *entry_of(atomic_int *holder)
{
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        atomic_int *expected = NULL;
        if (atomic_load(&holders[i]) == holder ||
            atomic_compare_exchange_strong(&holders[i], &expected, holder))
            return &holders[i];
    }
    return NULL;
}

int fan_park(int fd, atomic_int *holder)
{
    int high = move_high(fd);
    fan_sys_close(fd);
    if (high < 0 || fan_in_vfork_child())
        return high;
    if (entry_of(holder) == NULL) {
        fan_sys_close(high);
        return -EMFILE;
    }
    note_lowest(high);
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

int fan_repark(int fd)
{
    if (fan_in_vfork_child())
        return -EBUSY;
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        if (held_by(i) != fd)
            continue;
        int high = move_high(fd), expected = fd + 1;
        if (high < 0)
            return high;
        note_lowest(high);
        if (!atomic_compare_exchange_strong(atomic_load(&holders[i]), &expected, high + 1))
            fan_sys_close(high);
        return 0;
    }
    return 0;
}

bool fan_is_parked(int fd)
{
    if (fd < atomic_load_explicit(&lowest_parked, memory_order_relaxed))
        return false;
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        if (held_by(i) == fd)
            return true;
    }
    return false;
}

/* The lowest parked descriptor in [first, last], or last + 1. */
static long next_parked(long first, long last)
{
    long next = last + 1;
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
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
