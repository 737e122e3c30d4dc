#include "reserve.h"

#include <errno.h>

#include "../common/sys.h"

int fan_reserve(int fd, uint64_t bytes)
{
    int rc;
    if (bytes == 0)
        return 0;
    do {
        rc = (int)FAN_SYS(fallocate, fd, 0, 0, bytes);
    } while (rc == -EINTR);
    if (rc == -EOPNOTSUPP || rc == -ENOSYS)
        rc = (int)FAN_SYS(ftruncate, fd, bytes);
    return rc;
}
