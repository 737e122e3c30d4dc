/* What is done for each caught call. */
#ifndef FAN_TRAP_HANDLERS_H
#define FAN_TRAP_HANDLERS_H

#include "call.h"

/* How a handler finds its path. */
enum fan_follow {
    FAN_FOLLOW,     /* a link at the end is followed */
    FAN_FOLLOW_NOT,
    FAN_FOLLOW_AT,  /* as AT_SYMLINK_NOFOLLOW and AT_EMPTY_PATH in argument `flags` say */
};

struct fan_handler {
    int number;
    long (*run)(const struct fan_call *call, const struct fan_handler *handler);
    long (*act)(const struct fan_call *call, struct fan_spot *spot);
    signed char dirfd; /* the argument, or -1: the working directory */
    signed char path;
    enum fan_follow follow;
    signed char flags;
    bool makes; /* something, in a mode that the umask cuts */
};

/* Ends with one that has no `run`. */
extern const struct fan_handler fan_handlers[];

/* Answers a caught call with the handler of its number. */
long fan_handle(const struct fan_call *call);

/* With paths of their own to find. */
long fan_handle_open(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_creat(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_openat(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_openat2(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_fstat(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_fstatat(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_statx(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_readlink(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_getcwd(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_exit(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_rename(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_link(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_symlink(const struct fan_call *call, const struct fan_handler *handler);
long fan_handle_utimens(const struct fan_call *call, const struct fan_handler *handler);

/* On a path in a mount. */
long fan_act_stat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_lstat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_access(const struct fan_call *call, struct fan_spot *spot);
long fan_act_faccessat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_faccessat2(const struct fan_call *call, struct fan_spot *spot);
long fan_act_statfs(const struct fan_call *call, struct fan_spot *spot);
long fan_act_chdir(const struct fan_call *call, struct fan_spot *spot);
long fan_act_execve(const struct fan_call *call, struct fan_spot *spot);
long fan_act_truncate(const struct fan_call *call, struct fan_spot *spot);
long fan_act_unlink(const struct fan_call *call, struct fan_spot *spot);
long fan_act_unlinkat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_rmdir(const struct fan_call *call, struct fan_spot *spot);
long fan_act_mkdir(const struct fan_call *call, struct fan_spot *spot);
long fan_act_mkdirat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_mknod(const struct fan_call *call, struct fan_spot *spot);
long fan_act_mknodat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_chmod(const struct fan_call *call, struct fan_spot *spot);
long fan_act_fchmodat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_fchmodat2(const struct fan_call *call, struct fan_spot *spot);
long fan_act_chown(const struct fan_call *call, struct fan_spot *spot);
long fan_act_lchown(const struct fan_call *call, struct fan_spot *spot);
long fan_act_fchownat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_utime(const struct fan_call *call, struct fan_spot *spot);
long fan_act_utimes(const struct fan_call *call, struct fan_spot *spot);
long fan_act_futimesat(const struct fan_call *call, struct fan_spot *spot);
long fan_act_getxattr(const struct fan_call *call, struct fan_spot *spot);
long fan_act_listxattr(const struct fan_call *call, struct fan_spot *spot);
long fan_act_changexattr(const struct fan_call *call, struct fan_spot *spot);

#endif
