/* Calls that make or change something: outputs, or the errno of a file system mounted read-only. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "../client/outputs/writers.h"
#include "../common/sys.h"
#include "handlers.h"
#include "target.h"
#include "tree.h"

/* What a process that ends by itself has open is finished. */
long fan_handle_exit(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_target_status status;
    (void)handler;
    if (fan_target_status(call->tid, &status) == 0)
        fan_writer_release_of((uint32_t)status.tgid);
    return FAN_CALL_CONTINUE;
}

long fan_act_truncate(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(truncate(spot->path, (off_t)call->args[1]));
}

static long remove_at(struct fan_spot *spot, int flags)
{
    long rc = fan_call_result(unlinkat(AT_FDCWD, spot->path, flags));
    if (rc == 0 && (flags & AT_REMOVEDIR))
        fan_trap_tree_remove(spot->path);
    return rc;
}

long fan_act_unlink(const struct fan_call *call, struct fan_spot *spot)
{
    (void)call;
    return remove_at(spot, 0);
}

long fan_act_unlinkat(const struct fan_call *call, struct fan_spot *spot)
{
    return remove_at(spot, (int)call->args[2]);
}

long fan_act_rmdir(const struct fan_call *call, struct fan_spot *spot)
{
    (void)call;
    return remove_at(spot, AT_REMOVEDIR);
}

long fan_act_mkdir(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(mkdir(spot->path, (mode_t)call->args[1]));
}

long fan_act_mkdirat(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(mkdir(spot->path, (mode_t)call->args[2]));
}

long fan_act_mknod(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(mknod(spot->path, (mode_t)call->args[1], (dev_t)call->args[2]));
}

long fan_act_mknodat(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(mknod(spot->path, (mode_t)call->args[2], (dev_t)call->args[3]));
}

long fan_act_chmod(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(chmod(spot->path, (mode_t)call->args[1]));
}

long fan_act_fchmodat(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(chmod(spot->path, (mode_t)call->args[2]));
}

long fan_act_fchmodat2(const struct fan_call *call, struct fan_spot *spot)
{
    int flags = (int)call->args[3] & ~AT_EMPTY_PATH;
    return fan_call_result(fchmodat(AT_FDCWD, spot->path, (mode_t)call->args[2], flags));
}

long fan_act_chown(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(chown(spot->path, (uid_t)call->args[1], (gid_t)call->args[2]));
}

long fan_act_lchown(const struct fan_call *call, struct fan_spot *spot)
{
    return fan_call_result(lchown(spot->path, (uid_t)call->args[1], (gid_t)call->args[2]));
}

long fan_act_fchownat(const struct fan_call *call, struct fan_spot *spot)
{
    int flags = (int)call->args[4] & ~AT_EMPTY_PATH;
    return fan_call_result(fchownat(AT_FDCWD, spot->path, (uid_t)call->args[2],
                                    (gid_t)call->args[3], flags));
}

long fan_act_utime(const struct fan_call *call, struct fan_spot *spot)
{
    struct utimbuf times;
    if (call->args[1] != 0 && fan_target_read(call->tid, call->args[1], &times, sizeof(times)) != 0)
        return -EFAULT;
    return fan_call_result(utime(spot->path, call->args[1] != 0 ? &times : NULL));
}

static long set_times(const struct fan_call *call, const char *path, uint64_t at)
{
    struct timeval times[2];
    if (at != 0 && fan_target_read(call->tid, at, times, sizeof(times)) != 0)
        return -EFAULT;
    return fan_call_result(utimes(path, at != 0 ? times : NULL));
}

long fan_act_utimes(const struct fan_call *call, struct fan_spot *spot)
{
    return set_times(call, spot->path, call->args[1]);
}

long fan_act_futimesat(const struct fan_call *call, struct fan_spot *spot)
{
    return set_times(call, spot->path, call->args[2]);
}

/* Without a path it is about the descriptor, which the kernel knows. */
long fan_handle_utimens(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot spot;
    struct timespec times[2];
    int flags = (int)call->args[3];
    bool given = call->args[2] != 0;
    (void)handler;
    if (call->args[1] == 0 ||
        !fan_call_find(call, (int)call->args[0], call->args[1],
                        flags & AT_SYMLINK_NOFOLLOW ? 0 : FAN_SPOT_FOLLOW, &spot))
        return FAN_CALL_CONTINUE;
    if (given && fan_target_read(call->tid, call->args[2], times, sizeof(times)) != 0)
        return -EFAULT;
    return fan_call_result(utimensat(AT_FDCWD, spot.path, given ? times : NULL, flags));
}

/* Of a call with two paths: whether one leads into a mount; both are absolute then. */
static bool find_pair(const struct fan_call *call, const int dirfds[2], const uint64_t paths[2],
                      bool follow, struct fan_spot *from, struct fan_spot *to)
{
    struct fan_spot *const spots[] = {from, to};
    bool ours = false;
    for (int i = 0; i < 2; i++) {
        struct fan_spot *spot = spots[i];
        unsigned how = follow && i == 0 ? FAN_SPOT_FOLLOW : 0;
        if (fan_call_find(call, dirfds[i], paths[i], how, spot))
            ours = true;
        else if (spot->given[0] == '\0' ||
                 fan_target_absolute(call->tid, dirfds[i], spot->given, how != 0, spot->path) < 0)
            return false;
    }
    return ours;
}

/* The node daemon is asked for the process whichever of the two paths it is about. */
static void ask_for_caller(const struct fan_call *call)
{
    struct fan_target_status status;
    if (fan_target_status(call->tid, &status) == 0)
        fan_output_behalf = (uint32_t)status.tgid;
}

long fan_handle_rename(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot from, to;
    bool plain = false;
#ifdef SYS_rename
    plain = call->number == SYS_rename;
#endif
    const uint64_t *args = call->args;
    const int dirfds[2] = {plain ? AT_FDCWD : (int)args[0], plain ? AT_FDCWD : (int)args[2]};
    const uint64_t paths[2] = {args[plain ? 0 : 1], args[plain ? 1 : 3]};
    unsigned flags = call->number == SYS_renameat2 ? (unsigned)args[4] : 0;
    (void)handler;
    if (!find_pair(call, dirfds, paths, false, &from, &to))
        return FAN_CALL_CONTINUE;
    ask_for_caller(call);
    long rc = fan_call_result(renameat2(AT_FDCWD, from.path, AT_FDCWD, to.path, flags));
    if (rc == 0)
        fan_trap_tree_move(from.path, to.path);
    return rc;
}

long fan_handle_link(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot from, to;
    bool at_form = call->number == SYS_linkat;
    const uint64_t *args = call->args;
    const int dirfds[2] = {at_form ? (int)args[0] : AT_FDCWD, at_form ? (int)args[2] : AT_FDCWD};
    const uint64_t paths[2] = {args[at_form ? 1 : 0], args[at_form ? 3 : 1]};
    int flags = at_form ? (int)args[4] : 0;
    (void)handler;
    if (!find_pair(call, dirfds, paths, flags & AT_SYMLINK_FOLLOW, &from, &to))
        return FAN_CALL_CONTINUE;
    ask_for_caller(call);
    return fan_call_result(linkat(AT_FDCWD, from.path, AT_FDCWD, to.path, flags));
}

long fan_handle_symlink(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot spot;
    char text[PATH_MAX];
    bool at_form = call->number == SYS_symlinkat;
    int dirfd = at_form ? (int)call->args[1] : AT_FDCWD;
    (void)handler;
    if (!fan_call_find(call, dirfd, call->args[at_form ? 2 : 1], 0, &spot))
        return FAN_CALL_CONTINUE;
    int length = fan_target_text(call->tid, call->args[0], text);
    return length < 0 ? length : fan_call_result(symlink(text, spot.path));
}

/* Attributes that are not kept: whatever their name, the answer is the same. */
long fan_act_changexattr(const struct fan_call *call, struct fan_spot *spot)
{
    static const char name[] = "user.none";
    switch (call->number) {
    case SYS_setxattr:
        return fan_call_result(setxattr(spot->path, name, "", 0, 0));
    case SYS_lsetxattr:
        return fan_call_result(lsetxattr(spot->path, name, "", 0, 0));
    case SYS_removexattr:
        return fan_call_result(removexattr(spot->path, name));
    default:
        return fan_call_result(lremovexattr(spot->path, name));
    }
}
