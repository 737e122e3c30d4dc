/* What a path is: stat and its kin, access, links, the working directory. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "../client/open/stat.h"
#include "../common/sys.h"
#include "handlers.h"
#include "origin.h"
#include "target.h"

/* Gives `bytes` of a result, unless the call failed. */
static long give(const struct fan_call *call, long rc, uint64_t at, const void *from, size_t bytes)
{
    if (rc < 0)
        return -errno;
    if (!fan_call_valid(call)) /* its number may be another process's by now */
        return -ESRCH;
    int written = fan_target_write(call->tid, at, from, bytes);
    return written < 0 ? -EFAULT : 0;
}

static long give_stat(const struct fan_call *call, const char *path, int flags, uint64_t at)
{
    struct stat st;
    return give(call, fstatat(AT_FDCWD, path, &st, flags), at, &st, sizeof(st));
}

long fan_act_stat(const struct fan_call *call, struct fan_spot *spot)
{
    return give_stat(call, spot->path, 0, call->args[1]);
}

long fan_act_lstat(const struct fan_call *call, struct fan_spot *spot)
{
    return give_stat(call, spot->path, AT_SYMLINK_NOFOLLOW, call->args[1]);
}

/* Whether an open descriptor stands for a path in a mount. */
static bool of_descriptor(const struct fan_call *call, int fd, char path[PATH_MAX])
{
    const char *rest;
    return fan_target_fd_link(call->tid, fd, path) >= 0 && fan_match_prefix(path, &rest) != NULL &&
           fan_call_valid(call);
}

static long stat_descriptor(const struct fan_call *call, int fd, uint64_t at)
{
    char path[PATH_MAX];
    return of_descriptor(call, fd, path) ? give_stat(call, path, AT_SYMLINK_NOFOLLOW, at)
                                         : FAN_CALL_CONTINUE;
}

long fan_handle_fstat(const struct fan_call *call, const struct fan_handler *handler)
{
    (void)handler;
    return stat_descriptor(call, (int)call->args[0], call->args[1]);
}

/* Whether a call that takes AT_EMPTY_PATH is about its descriptor. */
static bool names_descriptor(const struct fan_call *call, int flags)
{
    char first;
    if (!(flags & AT_EMPTY_PATH) || (int)call->args[0] == AT_FDCWD)
        return false;
    return call->args[1] == 0 ||
           (fan_target_read(call->tid, call->args[1], &first, 1) == 0 && first == '\0');
}

static unsigned how_of(int flags)
{
    return flags & AT_SYMLINK_NOFOLLOW ? 0 : FAN_SPOT_FOLLOW;
}

long fan_handle_fstatat(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot spot;
    int flags = (int)call->args[3];
    (void)handler;
    if (names_descriptor(call, flags))
        return stat_descriptor(call, (int)call->args[0], call->args[2]);
    if (!fan_call_find(call, (int)call->args[0], call->args[1], how_of(flags), &spot))
        return FAN_CALL_CONTINUE;
    return give_stat(call, spot.path, flags & ~AT_EMPTY_PATH, call->args[2]);
}

static long statx_descriptor(const struct fan_call *call, unsigned mask)
{
    char path[PATH_MAX];
    struct statx stx;
    if (!of_descriptor(call, (int)call->args[0], path))
        return FAN_CALL_CONTINUE;
    long rc = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, mask, &stx);
    return give(call, rc, call->args[4], &stx, sizeof(stx));
}

long fan_handle_statx(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot spot;
    struct statx stx;
    int flags = (int)call->args[2];
    unsigned mask = (unsigned)call->args[3];
    (void)handler;
    if (names_descriptor(call, flags))
        return statx_descriptor(call, mask);
    if (!fan_call_find(call, (int)call->args[0], call->args[1], how_of(flags), &spot))
        return FAN_CALL_CONTINUE;
    long rc = statx(AT_FDCWD, spot.path, flags & ~AT_EMPTY_PATH, mask, &stx);
    return give(call, rc, call->args[4], &stx, sizeof(stx));
}

long fan_act_access(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(access(spot->path, (int)call->args[1]));
}

long fan_act_faccessat(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(faccessat(AT_FDCWD, spot->path, (int)call->args[2], 0));
}

long fan_act_faccessat2(const struct fan_call *call, struct fan_spot *spot)
{
    int flags = (int)call->args[3] & ~AT_EMPTY_PATH;
    return fan_call_result(faccessat(AT_FDCWD, spot->path, (int)call->args[2], flags));
}

long fan_act_statfs(const struct fan_call *call, struct fan_spot *spot)
{
    struct statfs fs;
    return give(call, statfs(spot->path, &fs), call->args[1], &fs, sizeof(fs));
}

/* Text without its NUL, as much as fits. */
static long give_text(const struct fan_call *call, const char *text, size_t length, uint64_t at,
                      uint64_t room)
{
    size_t bytes = length < room ? length : room;
    if ((int64_t)room <= 0)
        return -EINVAL;
    if (!fan_call_valid(call))
        return -ESRCH;
    return fan_target_write(call->tid, at, text, bytes) == 0 ? (long)bytes : -EFAULT;
}

/* Where a link of /proc leads that stands for a file of a mount: the length of the path there. */
static int shown_link(const struct fan_call *call, int dirfd, uint64_t at, char path[PATH_MAX])
{
    char given[PATH_MAX];
    const char *rest;
    if (fan_target_text(call->tid, at, given) < 0 ||
        (strncmp(given, "/proc/", 6) != 0 && strncmp(given, "/dev/", 5) != 0))
        return 0;
    int length = fan_target_absolute(call->tid, dirfd, given, true, path);
    return length > 0 && strcmp(given, path) != 0 && fan_match_prefix(path, &rest) != NULL ? length
                                                                                          : 0;
}

long fan_handle_readlink(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot spot;
    bool at_form = call->number == SYS_readlinkat;
    const uint64_t *args = call->args + (at_form ? 1 : 0);
    int dirfd = at_form ? (int)call->args[0] : AT_FDCWD;
    (void)handler;
    int length = shown_link(call, dirfd, args[0], spot.path);
    if (length > 0)
        return give_text(call, spot.path, (size_t)length, args[1], args[2]);
    if (!fan_call_find(call, dirfd, args[0], at_form ? FAN_SPOT_EMPTY : 0, &spot))
        return FAN_CALL_CONTINUE;
    char text[PATH_MAX];
    ssize_t got = readlink(spot.path, text, sizeof(text));
    if (got < 0)
        return errno == EINVAL && spot.given[0] == '\0' ? -ENOENT : -errno;
    return give_text(call, text, (size_t)got, args[1], args[2]);
}

long fan_handle_getcwd(const struct fan_call *call, const struct fan_handler *handler)
{
    char raw[PATH_MAX], shown[PATH_MAX], link[32];
    (void)handler;
    snprintf(link, sizeof(link), "/proc/%d/cwd", call->tid);
    long bytes = FAN_SYS(readlinkat, AT_FDCWD, link, raw, sizeof(raw) - 1);
    if (bytes <= 0)
        return FAN_CALL_CONTINUE;
    raw[bytes] = '\0';
    int length = fan_target_link(call->tid, "cwd", shown);
    if (length < 0 || strcmp(raw, shown) == 0 || !fan_call_valid(call))
        return FAN_CALL_CONTINUE;
    if (call->args[1] < (uint64_t)length + 1)
        return -ERANGE;
    int rc = fan_target_write(call->tid, call->args[0], shown, (size_t)length + 1);
    return rc == 0 ? length + 1 : -EFAULT;
}

long fan_act_getxattr(const struct fan_call *call, struct fan_spot *spot)
{
    char name;
    if (fan_target_read(call->tid, call->args[1], &name, 1) < 0)
        return -EFAULT;
    return fan_call_result(call->number == SYS_lgetxattr
                               ? lgetxattr(spot->path, "user.none", NULL, 0)
                               : getxattr(spot->path, "user.none", NULL, 0));
}

long fan_act_listxattr(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(call->number == SYS_llistxattr ? llistxattr(spot->path, NULL, 0)
                                                          : listxattr(spot->path, NULL, 0));
}
