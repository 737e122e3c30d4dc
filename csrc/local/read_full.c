#include "read_full.h"

#include <errno.h>
#include <unistd.h>

int fan_read_full(int fd, void *to, uint64_t offset, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, (char *)to + done, bytes - done, (off_t)(offset + done));
        if (got == 0 || (got < 0 && errno != EINTR))
            return -EIO;
        done += got > 0 ? (uint64_t)got : 0;
    }
    return 0;
}

int fan_write_full(int fd, const void *from, uint64_t offset, uint64_t bytes)
{
    for (uint64_t done = 0; done < bytes;) {
        ssize_t put = pwrite(fd, (const char *)from + done, bytes - done, (off_t)(offset + done));
        if (put < 0 && errno != EINTR)
            return -errno;
        if (put == 0)
            return -EIO;
        done += put > 0 ? (uint64_t)put : 0;
    }
    return 0;
}
