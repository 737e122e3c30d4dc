#include "reserve.h"

#include <errno.h>
#include <stddef.h>
#include <sys/resource.h>

#include "../../common/sys.h"

enum { PIECE = 4 << 20, LEAST = 4096 };

bool fan_file_limit_allows(uint64_t bytes)
{
    struct rlimit limit;
    return FAN_SYS(prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 && limit.rlim_cur >= bytes;
}

/* In pieces: a file in memory gives all of one back when a signal comes meanwhile (Linux before
 * 6.12), and under a timer a large one would begin again for ever. */
int fan_reserve(int fd, uint64_t bytes)
{
    uint64_t done = 0, most = PIECE;
    int rc = 0;
    while (rc == 0 && done < bytes) {
        uint64_t piece = bytes - done < most ? bytes - done : most;
        rc = (int)FAN_SYS(fallocate, fd, 0, done, piece);
        if (rc == 0)
            done += piece;
        if (rc == -EINTR) {
            most = most > LEAST ? most / 2 : LEAST;
            rc = 0;
        }
    }
    if (rc == -EOPNOTSUPP || rc == -ENOSYS)
        rc = (int)FAN_SYS(ftruncate, fd, bytes);
    return rc;
}
