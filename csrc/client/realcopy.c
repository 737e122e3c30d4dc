#include "realcopy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/sys.h"
#include "content_io.h"
#include "filetable.h"
#include "open.h"

static int write_all(int to, const char *piece, size_t bytes)
{
    while (bytes > 0) {
        long put = FAN_SYS(write, to, piece, bytes);
        if (put == -EINTR)
            continue;
        if (put <= 0)
            return put < 0 ? (int)put : -EIO;
        piece += put;
        bytes -= (size_t)put;
    }
    return 0;
}

static int fill(int to, struct fan_file *file)
{
    char piece[16384];
    for (int64_t offset = 0;;) {
        ssize_t got = fan_content_pread(file, piece, sizeof(piece), offset);
        int rc = got > 0 ? write_all(to, piece, (size_t)got) : 0;
        if (got <= 0 || rc != 0)
            return got < 0 ? (int)got : rc;
        offset += got;
    }
}

/* The same file through another description: for reading alone. */
static int reopen(int fd)
{
    char path[40] = "/proc/self/fd/", *at = path + strlen(path);
    int unit = 1;
    while (fd / unit >= 10)
        unit *= 10;
    for (; unit > 0; unit /= 10)
        *at++ = (char)('0' + fd / unit % 10);
    *at = '\0';
    return fan_sys_openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

int fan_real_copy(struct fan_file *file)
{
    int to = (int)FAN_SYS(memfd_create, "fanstore-copy", MFD_CLOEXEC);
    if (to < 0)
        return to;
    int rc = fill(to, file);
    int copy = rc == 0 ? reopen(to) : rc;
    fan_sys_close(to);
    return copy;
}

int fan_real_copy_of(struct fan_target *target)
{
    int fd = fan_open(target, O_RDONLY | O_CLOEXEC, 0);
    struct fan_file *file = fd >= 0 ? fan_file_get(fd) : NULL;
    if (file == NULL)
        return fd < 0 ? fd : -EIO;
    int copy = file->kind == FAN_FILE_REGULAR ? fan_real_copy(file) : -EISDIR;
    fan_file_remove(fd);
    fan_sys_close(fd);
    return copy;
}
