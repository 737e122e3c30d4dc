#include "handlers.h"

#include "../common/sys.h"
#include "target.h"

/* Finds the path that the handler says and acts on it where it leads into a mount. */
static long handle_path(const struct fan_call *call, const struct fan_handler *handler)
{
    struct fan_spot spot;
    unsigned how = handler->follow == FAN_FOLLOW ? FAN_SPOT_FOLLOW : 0;
    if (handler->follow == FAN_FOLLOW_AT) {
        int flags = (int)call->args[(int)handler->flags];
        how = (flags & AT_SYMLINK_NOFOLLOW ? 0u : FAN_SPOT_FOLLOW) |
              (flags & AT_EMPTY_PATH ? FAN_SPOT_EMPTY : 0u);
    }
    int dirfd = handler->dirfd < 0 ? AT_FDCWD : (int)call->args[(int)handler->dirfd];
    if (!fan_call_find(call, dirfd, call->args[(int)handler->path], how, &spot))
        return FAN_CALL_CONTINUE;
    if (handler->makes)
        fan_call_umask(call);
    return handler->act(call, &spot);
}

#define OWN(name, handle) {.number = SYS_##name, .run = handle}
#define PATH(name, act_, dirfd_, path_, follow_)                                                   \
    {.number = SYS_##name, .run = handle_path, .act = act_, .dirfd = dirfd_, .path = path_,    \
     .follow = follow_}
#define MAKES(name, act_, dirfd_, path_)                                                           \
    {.number = SYS_##name, .run = handle_path, .act = act_, .dirfd = dirfd_, .path = path_,    \
     .follow = FAN_FOLLOW_NOT, .makes = true}
#define FLAGS(name, act_, dirfd_, path_, flags_)                                                   \
    {.number = SYS_##name, .run = handle_path, .act = act_, .dirfd = dirfd_, .path = path_,    \
     .follow = FAN_FOLLOW_AT, .flags = flags_}

/* The most frequent first. */
const struct fan_handler fan_handlers[] = {
    OWN(openat, fan_handle_openat),
    OWN(newfstatat, fan_handle_fstatat),
    OWN(fstat, fan_handle_fstat),
    OWN(statx, fan_handle_statx),
    OWN(readlinkat, fan_handle_readlink),
    PATH(faccessat, fan_act_faccessat, 0, 1, FAN_FOLLOW),
    FLAGS(faccessat2, fan_act_faccessat2, 0, 1, 3),
    OWN(openat2, fan_handle_openat2),
    OWN(getcwd, fan_handle_getcwd),
    PATH(statfs, fan_act_statfs, -1, 0, FAN_FOLLOW),
    PATH(chdir, fan_act_chdir, -1, 0, FAN_FOLLOW),
    PATH(execve, fan_act_execve, -1, 0, FAN_FOLLOW),
    FLAGS(execveat, fan_act_execve, 0, 1, 4),
    PATH(truncate, fan_act_truncate, -1, 0, FAN_FOLLOW),
    PATH(unlinkat, fan_act_unlinkat, 0, 1, FAN_FOLLOW_NOT),
    MAKES(mkdirat, fan_act_mkdirat, 0, 1),
    MAKES(mknodat, fan_act_mknodat, 0, 1),
    OWN(exit_group, fan_handle_exit),
    OWN(renameat2, fan_handle_rename),
    OWN(linkat, fan_handle_link),
    OWN(symlinkat, fan_handle_symlink),
    PATH(fchmodat, fan_act_fchmodat, 0, 1, FAN_FOLLOW),
    FLAGS(fchmodat2, fan_act_fchmodat2, 0, 1, 3),
    FLAGS(fchownat, fan_act_fchownat, 0, 1, 4),
    OWN(utimensat, fan_handle_utimens),
    PATH(getxattr, fan_act_getxattr, -1, 0, FAN_FOLLOW),
    PATH(lgetxattr, fan_act_getxattr, -1, 0, FAN_FOLLOW_NOT),
    PATH(listxattr, fan_act_listxattr, -1, 0, FAN_FOLLOW),
    PATH(llistxattr, fan_act_listxattr, -1, 0, FAN_FOLLOW_NOT),
    PATH(setxattr, fan_act_changexattr, -1, 0, FAN_FOLLOW),
    PATH(lsetxattr, fan_act_changexattr, -1, 0, FAN_FOLLOW_NOT),
    PATH(removexattr, fan_act_changexattr, -1, 0, FAN_FOLLOW),
    PATH(lremovexattr, fan_act_changexattr, -1, 0, FAN_FOLLOW_NOT),
#ifdef SYS_renameat
    OWN(renameat, fan_handle_rename),
#endif
#ifdef SYS_open
    OWN(open, fan_handle_open),
    OWN(creat, fan_handle_creat),
    PATH(stat, fan_act_stat, -1, 0, FAN_FOLLOW),
    PATH(lstat, fan_act_lstat, -1, 0, FAN_FOLLOW_NOT),
    PATH(access, fan_act_access, -1, 0, FAN_FOLLOW),
    OWN(readlink, fan_handle_readlink),
    PATH(unlink, fan_act_unlink, -1, 0, FAN_FOLLOW_NOT),
    PATH(rmdir, fan_act_rmdir, -1, 0, FAN_FOLLOW_NOT),
    MAKES(mkdir, fan_act_mkdir, -1, 0),
    MAKES(mknod, fan_act_mknod, -1, 0),
    OWN(rename, fan_handle_rename),
    OWN(link, fan_handle_link),
    OWN(symlink, fan_handle_symlink),
    PATH(chmod, fan_act_chmod, -1, 0, FAN_FOLLOW),
    PATH(chown, fan_act_chown, -1, 0, FAN_FOLLOW),
    PATH(lchown, fan_act_lchown, -1, 0, FAN_FOLLOW_NOT),
    PATH(utime, fan_act_utime, -1, 0, FAN_FOLLOW),
    PATH(utimes, fan_act_utimes, -1, 0, FAN_FOLLOW),
    PATH(futimesat, fan_act_futimesat, 0, 1, FAN_FOLLOW),
#endif
    {.run = NULL},
};

long fan_handle(const struct fan_call *call)
{
    for (const struct fan_handler *handler = fan_handlers; handler->run != NULL; handler++) {
        if (handler->number == call->number) {
            long rc = handler->run(call, handler);
            fan_call_end();
            return rc;
        }
    }
    return FAN_CALL_CONTINUE;
}
