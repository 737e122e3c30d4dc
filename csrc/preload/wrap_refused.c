/*
 * Calls that mean nothing under a mount, for which a program had better hear so: what the kernel
 * would do there, it would do to an empty directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/fanotify.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/swap.h>
#include <unistd.h>

#include "../client/resolve.h"
#include "../common/sys.h"
#include "real.h"
#include "undeclared.h"

/* Calls newer than some libc's are made directly. */
#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#define SYS_fspick 433
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif

/* Whether a path is in a mount; then errno is `error`, or says that nothing is there. */
static bool refused(int dirfd, const char *path, unsigned flags, int error)
{
    struct fan_target target;
    if (fan_job.view_count == 0 || !fan_locate(dirfd, path, flags | FAN_THROUGH, &target))
        return false;
    errno = target.where == FAN_MISSING ? target.error : error;
    return true;
}

static bool not_for(const char *path)
{
    return refused(AT_FDCWD, path, 0, EOPNOTSUPP);
}

static unsigned at_flags(bool nofollow, bool empty)
{
    return (nofollow ? FAN_NOFOLLOW : 0u) | (empty ? FAN_EMPTY_PATH : 0u);
}

FAN_EXPORT int chroot(const char *path)
{
    return not_for(path) ? -1 : REAL(chroot)(path);
}

FAN_EXPORT int acct(const char *path)
{
    return path != NULL && not_for(path) ? -1 : REAL(acct)(path);
}

FAN_EXPORT int pivot_root(const char *root, const char *old)
{
    return not_for(root) || not_for(old) ? -1 : REAL(pivot_root)(root, old);
}

FAN_EXPORT int mount(const char *source, const char *target, const char *type, unsigned long flags,
                     const void *data)
{
    bool path = source != NULL && source[0] == '/'; /* else a name, for the file system to read */
    return (path && not_for(source)) || not_for(target) ? -1
                                                        : REAL(mount)(source, target, type, flags,
                                                                      data);
}

FAN_EXPORT int umount2(const char *path, int flags)
{
    unsigned how = at_flags(flags & UMOUNT_NOFOLLOW, false);
    return refused(AT_FDCWD, path, how, EINVAL) ? -1 : REAL(umount2)(path, flags);
}

FAN_EXPORT int umount(const char *path)
{
    return refused(AT_FDCWD, path, 0, EINVAL) ? -1 : REAL(umount)(path);
}

FAN_EXPORT int swapon(const char *path, int flags)
{
    return not_for(path) ? -1 : REAL(swapon)(path, flags);
}

FAN_EXPORT int swapoff(const char *path)
{
    return refused(AT_FDCWD, path, 0, EINVAL) ? -1 : REAL(swapoff)(path);
}

FAN_EXPORT int quotactl(int command, const char *special, int id, caddr_t address)
{
    return special != NULL && refused(AT_FDCWD, special, 0, ENOTBLK)
               ? -1
               : REAL(quotactl)(command, special, id, address);
}

FAN_EXPORT int name_to_handle_at(int dirfd, const char *path, struct file_handle *handle,
                                 int *mount_id, int flags)
{
    unsigned how = at_flags(!(flags & AT_SYMLINK_FOLLOW), flags & AT_EMPTY_PATH);
    return refused(dirfd, path, how, EOPNOTSUPP)
               ? -1
               : REAL(name_to_handle_at)(dirfd, path, handle, mount_id, flags);
}

FAN_EXPORT int open_tree(int dirfd, const char *path, unsigned flags)
{
    unsigned how = at_flags(flags & AT_SYMLINK_NOFOLLOW, flags & AT_EMPTY_PATH);
    return refused(dirfd, path, how, EOPNOTSUPP)
               ? -1
               : (int)fan_answer(FAN_SYS(open_tree, dirfd, path, flags));
}

FAN_EXPORT int move_mount(int from_dirfd, const char *from, int to_dirfd, const char *to,
                          unsigned flags)
{
    return refused(from_dirfd, from, FAN_EMPTY_PATH, EOPNOTSUPP) ||
                   refused(to_dirfd, to, FAN_EMPTY_PATH, EOPNOTSUPP)
               ? -1
               : (int)fan_answer(FAN_SYS(move_mount, from_dirfd, from, to_dirfd, to, flags));
}

FAN_EXPORT int fspick(int dirfd, const char *path, unsigned flags)
{
    return refused(dirfd, path, FAN_EMPTY_PATH, EOPNOTSUPP)
               ? -1
               : (int)fan_answer(FAN_SYS(fspick, dirfd, path, flags));
}

FAN_EXPORT int mount_setattr(int dirfd, const char *path, unsigned flags, struct mount_attr *change,
                             size_t bytes)
{
    unsigned how = at_flags(flags & AT_SYMLINK_NOFOLLOW, flags & AT_EMPTY_PATH);
    return refused(dirfd, path, how, EOPNOTSUPP)
               ? -1
               : (int)fan_answer(FAN_SYS(mount_setattr, dirfd, path, flags, change, bytes));
}

FAN_EXPORT int fanotify_mark(int fd, unsigned flags, uint64_t mask, int dirfd, const char *path)
{
    unsigned how = at_flags(flags & FAN_MARK_DONT_FOLLOW, path == NULL);
    return refused(dirfd, path != NULL ? path : "", how, EOPNOTSUPP)
               ? -1
               : REAL(fanotify_mark)(fd, flags, mask, dirfd, path);
}
