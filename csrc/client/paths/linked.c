#include "linked.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <string.h>

#include "../../common/descriptor.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../job/mounts.h"
#include "../machine/spelling.h"
#include "cwd.h"

/* Opens a path without following a link. Returns 0 or -errno: -ELOOP if there is a link on the way,
 * or, with O_NOFOLLOW in `flags`, at the end. */
static int without_links(int dirfd, const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(O_PATH | O_CLOEXEC | flags),
                           .resolve = RESOLVE_NO_SYMLINKS};
    long fd = FAN_SYS(openat2, dirfd, path, &how, sizeof(how));
    if (fd >= 0)
        fan_sys_close((int)fd);
    return fd < 0 ? (int)fd : 0;
}

bool fan_linked(int dirfd, const char *path)
{
    int rc = without_links(dirfd, path, 0);
    return rc != 0 && rc != -ENOENT && rc != -ENOTDIR;
}

struct paths {
    char rest[PATH_MAX], done[PATH_MAX], target[PATH_MAX];
};

static bool starts_near(int dirfd, const char *path)
{
    const char *rest;
    struct fan_view *view;
    if (dirfd == AT_FDCWD || path[0] == '/' || fan_is_far_fd(dirfd))
        return false;
    FAN_OFF_STACK(struct paths, room);
    return room != NULL && fan_fd_path(dirfd, room->done, sizeof(room->done)) > 0 &&
           (fan_match_prefix(room->done, &rest) != NULL || fan_match_above(room->done, &view) > 0);
}

bool fan_may_lead_in(int dirfd, const char *path, bool follow)
{
    if (starts_near(dirfd, path))
        return true;
    int rc = without_links(dirfd, path, follow ? 0 : O_NOFOLLOW);
    return rc == -ELOOP || rc == -ENOSYS;
}

long fan_fd_path_real(int fd, char *to, size_t capacity)
{
    char link[FAN_FD_LINK_BYTES];
    fan_fd_link(fd, link);
    return fan_sys_readlink(AT_FDCWD, link, to, capacity);
}

long fan_fd_path(int fd, char *to, size_t capacity)
{
    long length = fan_fd_path_real(fd, to, capacity);
    return length < 0 ? length : fan_unskeleton(to, (size_t)length, capacity);
}

int fan_absolute_path(int dirfd, const char *path, char *to, size_t capacity)
{
    long start = 0;
    if (path[0] != '/') {
        start = dirfd == AT_FDCWD ? fan_cwd_path(to, capacity) : fan_fd_path(dirfd, to, capacity);
        if (start < 0)
            return (int)start;
        to[start++] = '/';
    }
    size_t bytes = strlen(path) + 1;
    if ((size_t)start + bytes > capacity)
        return -ENAMETOOLONG;
    memcpy(to + start, path, bytes);
    return 0;
}

/* Reads the link at `done`, and puts its target in front of the remaining `rest`. Returns -EINVAL
 * if it is no link. */
static long expand(struct paths *room, size_t *length, size_t before)
{
    char *done = room->done, *rest = room->rest, *target = room->target;
    long bytes = fan_sys_readlink(AT_FDCWD, done, target, sizeof(room->target));
    if (bytes < 0)
        return bytes;
    bytes = fan_unskeleton(target, (size_t)bytes, sizeof(room->target)); /* of /proc/self/fd */
    if (bytes < 0 || !fan_join(rest, sizeof(room->rest), target, (size_t)bytes, rest))
        return -ENAMETOOLONG;
    *length = target[0] == '/' ? 0 : before;
    done[*length] = '\0';
    return 0;
}

static bool reached(const char *done, const char *rest, char *to, size_t capacity)
{
    const char *inside;
    return done[0] != '\0' && fan_match_prefix(done, &inside) != NULL &&
           fan_join(to, capacity, done, strlen(done), rest);
}

bool fan_linked_path(int dirfd, const char *path, bool follow, char *to, size_t capacity)
{
    FAN_OFF_STACK(struct paths, room);
    size_t length = 0;
    unsigned links = 0;
    if (room == NULL || fan_absolute_path(dirfd, path, room->rest, sizeof(room->rest)) != 0 ||
        room->rest[0] != '/')
        return false;
    char *rest = room->rest, *done = room->done;
    done[0] = '\0';
    while (!reached(done, rest, to, capacity)) {
        char *name = rest;
        while (*name == '/')
            name++;
        size_t bytes = strcspn(name, "/");
        if (bytes == 0)
            return false;
        size_t before = length;
        if (bytes == 2 && name[0] == '.' && name[1] == '.') {
            while (length > 0 && done[--length] != '/') {
            }
        } else if (bytes != 1 || name[0] != '.') {
            if (length + bytes + 2 > sizeof(room->done))
                return false;
            done[length++] = '/';
            memcpy(done + length, name, bytes);
            length += bytes;
        }
        done[length] = '\0';
        memmove(rest, name + bytes, strlen(name + bytes) + 1);
        if (length <= before)
            continue;
        bool as_it_is = !follow && rest[0] == '\0';
        long rc = as_it_is ? -EINVAL : expand(room, &length, before);
        if ((rc == 0 && ++links > 40) || (rc != 0 && rc != -EINVAL))
            return reached(done, rest, to, capacity);
    }
    return true;
}
