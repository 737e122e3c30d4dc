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
#include "cwd.h"
#include "near.h"

bool fan_linked(int dirfd, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_SYMLINKS};
    long fd = FAN_SYS(openat2, dirfd, path, &how, sizeof(how));
    if (fd >= 0)
        fan_sys_close((int)fd);
    return fd < 0 && fd != -ENOENT && fd != -ENOTDIR;
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
    struct open_how how = {.flags = O_PATH | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW),
                           .resolve = RESOLVE_NO_SYMLINKS};
    if (starts_near(dirfd, path))
        return true;
    long fd = FAN_SYS(openat2, dirfd, path, &how, sizeof(how));
    if (fd >= 0)
        fan_sys_close((int)fd);
    return fd == -ELOOP || fd == -ENOSYS;
}

long fan_fd_path_real(int fd, char *to, size_t capacity)
{
    char link[FAN_FD_LINK_BYTES];
    fan_fd_link(fd, link);
    long length = FAN_SYS(readlinkat, AT_FDCWD, link, to, capacity - 1);
    if (length < 0)
        return length;
    to[length] = '\0';
    return length;
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

/* Reads the link at `done`; its target goes in front of what is left of `rest`. -EINVAL: no
 * link. */
static long expand(struct paths *room, size_t *length, size_t before)
{
    char *done = room->done, *rest = room->rest, *target = room->target;
    long bytes = FAN_SYS(readlinkat, AT_FDCWD, done, target, sizeof(room->target) - 1);
    if (bytes < 0)
        return bytes;
    target[bytes] = '\0';
    bytes = fan_unskeleton(target, (size_t)bytes, sizeof(room->target)); /* of /proc/self/fd */
    if (bytes < 0)
        return -ENAMETOOLONG;
    size_t left = strlen(rest);
    if ((size_t)bytes + left + 2 > sizeof(room->rest))
        return -ENAMETOOLONG;
    memmove(rest + bytes + 1, rest, left + 1);
    memcpy(rest, target, (size_t)bytes);
    rest[bytes] = left > 0 ? '/' : '\0';
    *length = target[0] == '/' ? 0 : before;
    done[*length] = '\0';
    return 0;
}

static bool reached(const char *done, const char *rest, char *to, size_t capacity)
{
    const char *inside;
    if (done[0] == '\0' || fan_match_prefix(done, &inside) == NULL)
        return false;
    size_t length = strlen(done), left = strlen(rest);
    if (length + left + 2 > capacity)
        return false;
    memmove(to + length + 1, rest, left + 1);
    memmove(to, done, length);
    to[length] = left > 0 ? '/' : '\0';
    return true;
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
