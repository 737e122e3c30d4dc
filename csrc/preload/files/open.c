/* open and close, with all their variants. */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../client/open/open.h"
#include "../../client/outputs/outputs.h"
#include "../../client/machine/park.h"
#include "../../common/sys.h"
#include "../cancel.h"
#include "../log.h"
#include "../real.h"
#include "../undeclared.h"

static bool takes_mode(int flags)
{
    return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
}

static int open_ours(struct fan_target *target, int flags, mode_t mode)
{
    bool held = fan_cancel_begin();
    int fd = fan_open(target, flags, mode);
    fan_cancel_end(held);
    return (int)fan_answer(fd);
}

static int real_open(struct fan_target *target, int flags, mode_t mode)
{
    if (target->where == FAN_TREE)
        return open_ours(target, flags, mode);
    if (target->dirfd == AT_FDCWD)
        return REAL(open)(target->path, flags, mode);
    return REAL(openat)(target->dirfd, target->path, flags, mode);
}

static void note_real(int fd, const char *path, int flags)
{
    fan_file_remove(fd); /* closed by a call that the library did not see */
    if (path[0] == '/' && fan_output_reopened(fd, path))
        return;
    if (flags & O_DIRECTORY)
        fan_open_noticed(fd, flags);
}

static int open_at(int dirfd, const char *path, int flags, mode_t mode)
{
    struct fan_target target;
    unsigned how = fan_open_resolve(flags);
    bool ours = fan_locate(dirfd, path, how, &target);
    int fd = ours ? open_ours(&target, flags, mode) : real_open(&target, flags, mode);
    if (target.where == FAN_OUTSIDE && fd >= 0 && fan_job.view_count > 0)
        note_real(fd, path, flags);
    else if (!ours && fd < 0 && errno == ENOENT && fan_relocate(dirfd, path, how, &target))
        fd = fan_target_is_real(&target) ? real_open(&target, flags, mode)
                                         : open_ours(&target, flags, mode);
    return (int)fan_logged("open", path, &target, fd);
}

/* Sets the mode, an argument that exists only with some flags. */
#define GET_MODE(mode, flags)                                                                      \
    mode_t mode = 0;                                                                               \
    if (takes_mode(flags)) {                                                                       \
        va_list list;                                                                              \
        va_start(list, flags);                                                                     \
        mode = va_arg(list, mode_t);                                                               \
        va_end(list);                                                                              \
    }

FAN_EXPORT int open(const char *path, int flags, ...)
{
    GET_MODE(mode, flags)
    return open_at(AT_FDCWD, path, flags, mode);
}

FAN_EXPORT int openat(int dirfd, const char *path, int flags, ...)
{
    GET_MODE(mode, flags)
    return open_at(dirfd, path, flags, mode);
}

FAN_EXPORT int __open_2(const char *path, int flags)
{
    if (takes_mode(flags))
        __chk_fail();
    return open_at(AT_FDCWD, path, flags, 0);
}

FAN_EXPORT int __openat_2(int dirfd, const char *path, int flags)
{
    if (takes_mode(flags))
        __chk_fail();
    return open_at(dirfd, path, flags, 0);
}

int fan_close_quietly(int fd)
{
    return (int)fan_answer(fan_is_parked(fd) ? -EBADF : fan_file_close(fd));
}

FAN_EXPORT int close(int fd)
{
    if (fan_job.view_count == 0)
        return REAL(close)(fd);
    if (fan_file_get(fd) != NULL) {
        bool held = fan_cancel_begin();
        int rc = fan_file_close(fd);
        fan_cancel_end(held);
        return (int)fan_answer(rc);
    }
    if (fan_is_parked(fd))
        return (int)fan_answer(-EBADF);
    return REAL(close)(fd);
}

static int close_range_ours(unsigned first, unsigned last, int flags)
{
    if (first > last || (flags & ~(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC)))
        return -EINVAL;
    if (!(flags & CLOSE_RANGE_CLOEXEC))
        fan_file_remove_range(first, last);
    return fan_close_range_around(first, last, (unsigned)flags);
}

FAN_EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    if (fan_job.view_count == 0)
        return (int)fan_answer(FAN_SYS(close_range, first, last, flags));
    return (int)fan_answer(close_range_ours(first, last, flags));
}

FAN_EXPORT void closefrom(int first)
{
    unsigned from = first < 0 ? 0 : (unsigned)first;
    if (close_range_ours(from, ~0u, 0) == 0)
        return;
    for (int fd = (int)from, end = (int)sysconf(_SC_OPEN_MAX); fd < end; fd++)
        close(fd);
}
