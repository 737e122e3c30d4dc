#include "copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../client/content/fill.h"
#include "../common/sys.h"
#include "origin.h"

enum { IN_MEMORY_BYTES = 64 << 20 };

/* A new file that nobody else can open by name. */
static int make(const char *name, uint64_t size)
{
    char path[PATH_MAX];
    if (size <= IN_MEMORY_BYTES)
        return (int)FAN_SYS(memfd_create, name, MFD_CLOEXEC);
    int self = (int)FAN_SYS(gettid);
    if (snprintf(path, sizeof(path), "%s/%s.%d", fan_origin_root, name, self) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    int fd = fan_sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (fd >= 0)
        FAN_SYS(unlinkat, AT_FDCWD, path, 0);
    return fd;
}

int fan_reopen(int fd, int flags)
{
    char path[32];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return fan_sys_openat(AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

int fan_copy_open(struct fan_file *file, int flags)
{
    const int kept = O_APPEND | O_NONBLOCK | O_NOATIME;
    char name[FAN_COPY_NAME_BYTES];
    fan_origin_name(file->view, file->id, name);
    int to = make(name, file->record->logical_size);
    if (to < 0)
        return to;
    int rc = fan_fill(to, file, 0, file->record->logical_size);
    rc = rc == 0 ? fan_reopen(to, O_RDONLY | (flags & kept)) : rc;
    fan_sys_close(to);
    return rc;
}

int fan_copy_file(struct fan_file *file, const char *path, unsigned mode)
{
    char fresh[PATH_MAX];
    int self = (int)FAN_SYS(gettid);
    if (snprintf(fresh, sizeof(fresh), "%s.%d", path, self) >= (int)sizeof(fresh))
        return -ENAMETOOLONG;
    int to = fan_sys_openat(AT_FDCWD, fresh, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
    if (to < 0)
        return to;
    long rc = fan_fill(to, file, 0, file->record->logical_size);
    rc = rc == 0 ? FAN_SYS(fchmod, to, mode) : rc;
    fan_sys_close(to);
    rc = rc == 0 ? FAN_SYS(renameat2, AT_FDCWD, fresh, AT_FDCWD, path, 0) : rc;
    if (rc < 0)
        FAN_SYS(unlinkat, AT_FDCWD, fresh, 0);
    return (int)rc;
}

int fan_copy_path(const struct fan_file *file)
{
    char name[FAN_COPY_NAME_BYTES];
    fan_origin_name(file->view, file->id, name);
    int to = (int)FAN_SYS(memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (to < 0)
        return to;
    fan_sys_fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK);
    int rc = fan_reopen(to, O_WRONLY);
    fan_sys_close(to);
    return rc;
}
