#include "park.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "../common/sys.h"

static atomic_int parked[FAN_PARKED_MAX]; /* descriptor + 1; 0: free */
static atomic_int lowest_parked = INT_MAX;

/* Where parking starts: a little under the soft limit, so that the program's own low descriptors
 * and ours do not meet. */
static int park_floor(void)
{
    struct rlimit limit;
    if (FAN_SYS(prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0 || limit.rlim_cur > 1 << 20)
        return (1 << 20) - FAN_PARKED_MAX;
    int soft = (int)limit.rlim_cur;
    return soft > 2 * FAN_PARKED_MAX ? soft - FAN_PARKED_MAX : soft - soft / 4;
}

static int register_parked(int fd)
{
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        int expected = 0;
        if (atomic_compare_exchange_strong(&parked[i], &expected, fd + 1)) {
            int low = atomic_load(&lowest_parked);
            while (fd < low && !atomic_compare_exchange_weak(&lowest_parked, &low, fd)) {
            }
            return fd;
        }
    }
    fan_sys_close(fd);
    return -EMFILE;
}

int fan_park(int fd)
{
    int high = fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, park_floor());
    if (high < 0)
        high = fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, 0);
    fan_sys_close(fd);
    return high < 0 ? high : register_parked(high);
}

void fan_unpark(int fd)
{
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        int expected = fd + 1;
        if (atomic_compare_exchange_strong(&parked[i], &expected, 0))
            fan_sys_close(fd);
    }
}

bool fan_is_parked(int fd)
{
    if (fd < atomic_load_explicit(&lowest_parked, memory_order_relaxed))
        return false;
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        if (atomic_load_explicit(&parked[i], memory_order_relaxed) == fd + 1)
            return true;
    }
    return false;
}

/* The lowest parked descriptor in [first, last], or last + 1. */
static long next_parked(long first, long last)
{
    long next = last + 1;
    for (unsigned i = 0; i < FAN_PARKED_MAX; i++) {
        long fd = (long)atomic_load_explicit(&parked[i], memory_order_relaxed) - 1;
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
