#include "realcopy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/sys.h"
#include "arena.h"
#include "content_io.h"
#include "filetable.h"
#include "open.h"

enum { PIECE_BYTES = 4 << 20, IN_MEMORY_BYTES = 256 << 20 };

/* Reads into one piece of the copy, mapped: the caller's stack may be small. */
static int fill_piece(int to, struct fan_file *file, int64_t offset, size_t bytes)
{
    long at = fan_sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, to, offset);
    if (fan_sys_failed(at))
        return (int)at;
    ssize_t got = fan_content_pread(file, (void *)at, bytes, offset);
    fan_sys_munmap((void *)at, bytes);
    return got < 0 ? (int)got : got == (ssize_t)bytes ? 0 : -EIO;
}

static int fill(int to, struct fan_file *file)
{
    uint64_t size = file->record->logical_size;
    if (size == 0)
        return 0;
    if (!fan_file_limit_allows(size))
        return -EFBIG;
    int rc = (int)FAN_SYS(fallocate, to, 0, 0, size); /* a full tmpfs says so here, not by SIGBUS */
    for (uint64_t offset = 0; rc == 0 && offset < size; offset += PIECE_BYTES)
        rc = fill_piece(to, file, (int64_t)offset,
                        size - offset < PIECE_BYTES ? size - offset : PIECE_BYTES);
    return rc;
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

/* A new file without a name: in memory, or a large one on the local disk. */
static int make_file(uint64_t size)
{
    if (size <= IN_MEMORY_BYTES)
        return (int)FAN_SYS(memfd_create, "fanstore-copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return fan_sys_openat(AT_FDCWD, fan_job.directory.text, O_TMPFILE | O_RDWR | O_CLOEXEC, 0700);
}

int fan_real_copy(struct fan_file *file)
{
    int to = make_file(file->record->logical_size);
    if (to < 0)
        return to;
    int rc = fill(to, file);
    fan_sys_fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
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
