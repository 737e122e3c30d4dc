/*
 * Calls that do not work in a mount, and fail so that the program notices. Otherwise libc and the
 * kernel would look at the real directory at the mount prefix, which is empty.
 */
#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <sys/fanotify.h>

#include "../../client/paths/resolve.h"
#include "../real.h"

/* Returns whether a path is in a mount. If so, sets errno to EOPNOTSUPP, or to ENOENT and so on for
 * a missing file. */
static bool refused(int dirfd, const char *path, bool nofollow, bool empty,
                    struct fan_target *target)
{
    unsigned how = FAN_THROUGH | (nofollow ? FAN_NOFOLLOW : 0u) | (empty ? FAN_EMPTY_PATH : 0u);
    *target = (struct fan_target){.dirfd = dirfd, .path = path};
    if (fan_job.view_count == 0 || !fan_locate(dirfd, path, how, target))
        return false;
    errno = target->where == FAN_MISSING ? target->error : EOPNOTSUPP;
    return true;
}

FAN_EXPORT int name_to_handle_at(int dirfd, const char *path, struct file_handle *handle,
                                 int *mount_id, int flags)
{
    struct fan_target target;
    return refused(dirfd, path, !(flags & AT_SYMLINK_FOLLOW), flags & AT_EMPTY_PATH, &target)
               ? -1
               : REAL(name_to_handle_at)(target.dirfd, target.path, handle, mount_id, flags);
}

FAN_EXPORT int fanotify_mark(int fd, unsigned flags, uint64_t mask, int dirfd, const char *path)
{
    struct fan_target target;
    if (refused(dirfd, path != NULL ? path : "", flags & FAN_MARK_DONT_FOLLOW, path == NULL,
                &target))
        return -1;
    bool inside = target.where == FAN_TREE && path != NULL;
    return REAL(fanotify_mark)(fd, flags, mask, inside ? target.dirfd : dirfd,
                               inside ? target.path : path);
}

/* libc walks with its own internal calls. Leaves a path that does not exist to the walk, which
 * reports it. */
FAN_EXPORT FTS *fts_open(char *const *paths, int options,
                         int (*compare)(const FTSENT **, const FTSENT **))
{
    for (char *const *path = paths; *path != NULL; path++) {
        struct fan_target target;
        bool inside = refused(AT_FDCWD, *path, false, false, &target) ? errno == EOPNOTSUPP
                                                                      : target.where == FAN_TREE;
        if (inside) {
            errno = EOPNOTSUPP;
            return NULL;
        }
    }
    return REAL(fts_open)(paths, options, compare);
}
