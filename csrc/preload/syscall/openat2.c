#include "openat2.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../client/machine/copy.h"
#include "../../client/open/open.h"
#include "../../client/paths/resolve.h"
#include "../../client/machine/spelling.h"
#include "../real.h"
#include "../undeclared.h"

#ifndef RESOLVE_CACHED
#define RESOLVE_CACHED 0x20
#endif

enum { HOW_BYTES_MIN = 24, HOW_BYTES_MAX = 4096, LINKS_MAX = 40 };

static int check(const struct open_how *how)
{
    const uint64_t path_flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const uint64_t flags = path_flags | O_ACCMODE | O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC |
                           O_APPEND | O_NONBLOCK | O_SYNC | O_ASYNC | O_DIRECT | 0100000 |
                           O_NOATIME | O_TMPFILE;
    const uint64_t rules = RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS |
                           RESOLVE_BENEATH | RESOLVE_IN_ROOT | RESOLVE_CACHED;
    const uint64_t roots = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    bool makes = (how->flags & O_CREAT) || (how->flags & O_TMPFILE) == O_TMPFILE;
    if (how->flags & ~flags || how->resolve & ~rules || (how->resolve & roots) == roots ||
        (how->mode != 0 && !makes) || how->mode & ~(uint64_t)07777 ||
        ((how->flags & O_PATH) && how->flags & ~path_flags))
        return -EINVAL;
    return how->resolve & RESOLVE_CACHED ? -EAGAIN : 0; /* nothing is known to be at hand */
}

int fan_how_read(struct open_how *how, const void *given, size_t size)
{
    if (size < HOW_BYTES_MIN)
        return -EINVAL;
    if (size > HOW_BYTES_MAX)
        return -E2BIG;
    int rc = fan_copy(how, given, sizeof(*how) < size ? sizeof(*how) : size);
    for (size_t at = sizeof(*how); rc == 0 && at < size; at++) {
        char byte;
        rc = fan_copy(&byte, (const char *)given + at, 1);
        if (rc == 0 && byte != 0)
            rc = -E2BIG;
    }
    return rc != 0 ? rc : check(how);
}

/* A path on its way: what is resolved, without links and "..", and what is left. */
struct way {
    int dirfd;
    bool root; /* RESOLVE_IN_ROOT: the directory is "/" */
    bool follow;
    unsigned links;
    size_t length;
    char done[PATH_MAX];
    char rest[PATH_MAX];
};

static int go_up(struct way *way)
{
    if (way->length == 0)
        return way->root ? 0 : -EXDEV;
    while (way->length > 0 && way->done[--way->length] != '/') {
    }
    way->done[way->length] = '\0';
    return 0;
}

/* The target of the link at `done`, whose own name begins at `before`, goes in front of `rest`. */
static int take_link(struct way *way, size_t before)
{
    char target[PATH_MAX];
    ssize_t bytes = readlinkat(way->dirfd, way->done, target, sizeof(target));
    if (bytes <= 0)
        return bytes < 0 ? -errno : -ENOENT;
    if (target[0] == '/' && !way->root)
        return -EXDEV;
    size_t left = strlen(way->rest);
    if ((size_t)bytes + left + 1 > sizeof(way->rest))
        return -ENAMETOOLONG;
    memmove(way->rest + bytes, way->rest, left + 1);
    memcpy(way->rest, target, (size_t)bytes);
    way->length = target[0] == '/' ? 0 : before;
    way->done[way->length] = '\0';
    return ++way->links > LINKS_MAX ? -ELOOP : 0;
}

/* Goes down to a name, which begins `rest`. */
static int go_down(struct way *way, size_t bytes)
{
    size_t before = way->length;
    struct stat st;
    if (before + bytes + 2 > sizeof(way->done))
        return -ENAMETOOLONG;
    if (before > 0)
        way->done[way->length++] = '/';
    memcpy(way->done + way->length, way->rest, bytes);
    way->done[way->length += bytes] = '\0';
    memmove(way->rest, way->rest + bytes, strlen(way->rest + bytes) + 1);
    bool last = way->rest[0] == '\0';
    if (fstatat(way->dirfd, way->done, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT && last ? 0 : -errno;
    if (S_ISLNK(st.st_mode))
        return last && !way->follow ? 0 : take_link(way, before);
    return last || S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
}

/* Resolves a path that must stay below its directory: the way to its end, in `done`. */
static int stay_below(struct way *way)
{
    int rc = 0;
    if (way->rest[0] == '/' && !way->root)
        return -EXDEV;
    while (rc == 0) {
        char *name = way->rest + strspn(way->rest, "/");
        memmove(way->rest, name, strlen(name) + 1);
        size_t bytes = (size_t)(fan_component_end(way->rest) - way->rest);
        if (bytes == 0)
            break;
        if (fan_is_dot(way->rest, bytes) || fan_is_dot_dot(way->rest, bytes)) {
            rc = bytes == 2 ? go_up(way) : 0;
            memmove(way->rest, way->rest + bytes, strlen(way->rest + bytes) + 1);
        } else {
            rc = go_down(way, bytes);
        }
    }
    if (rc == 0 && way->length == 0)
        memcpy(way->done, ".", 2);
    return rc;
}

static int open_below(int dirfd, const char *path, const struct open_how *how)
{
    struct way way = {.dirfd = dirfd, .follow = !(how->flags & O_NOFOLLOW)};
    size_t bytes = strnlen(path, PATH_MAX);
    if (bytes == 0 || bytes >= sizeof(way.rest))
        return (int)fan_answer(bytes == 0 ? -ENOENT : -ENAMETOOLONG);
    way.root = (how->resolve & RESOLVE_IN_ROOT) != 0;
    if (how->resolve & RESOLVE_NO_SYMLINKS)
        way.links = LINKS_MAX;
    memcpy(way.rest, path, bytes + 1);
    int rc = stay_below(&way);
    if (rc != 0)
        return (int)fan_answer(rc);
    return openat(dirfd, way.done, (int)how->flags | O_NOFOLLOW, (mode_t)how->mode);
}

/* Whether one of the names on the way, or the last, is a symbolic link. */
static bool has_link(int dirfd, const char *path, bool last)
{
    char part[PATH_MAX];
    struct stat st;
    for (const char *end = path; *end != '\0';) {
        while (*end == '/')
            end++;
        end = fan_component_end(end);
        if (*end == '\0' && !last)
            return false;
        memcpy(part, path, (size_t)(end - path));
        part[end - path] = '\0';
        if (fstatat(dirfd, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            return true;
    }
    return false;
}

bool fan_openat2(int dirfd, const char *path, const struct open_how *how, int *fd)
{
    struct fan_target target;
    bool below = (how->resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT)) != 0;
    if (below && !fan_locate(dirfd, "", FAN_EMPTY_PATH, &target))
        return false;
    if (!below && !fan_locate(dirfd, path, fan_open_resolve((int)how->flags), &target))
        return false;
    bool magic = strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/", 5) == 0;
    if (!below && magic && how->resolve & (RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS))
        return false;
    bool straight = how->resolve & RESOLVE_NO_SYMLINKS;
    if (below)
        *fd = open_below(dirfd, path, how);
    else if (straight && has_link(dirfd, path, !(how->flags & O_NOFOLLOW)))
        *fd = (int)fan_answer(-ELOOP);
    else
        *fd = openat(dirfd, path, (int)how->flags, (mode_t)how->mode);
    return true;
}
