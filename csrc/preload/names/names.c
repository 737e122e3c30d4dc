/* Calls that change names: remove, rename, link, make. The kernel makes changes in the output tree;
 * the node daemon decides if other ranks are concerned. A change of an input fails, as on a
 * read-only file system. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../client/outputs/change.h"
#include "../../client/outputs/pair.h"
#include "../../client/paths/cwd.h"
#include "../../client/paths/output_tree.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../log.h"
#include "../real.h"
#include "../undeclared.h"

enum last { LAST_NAME, LAST_DOT, LAST_DOT_DOT };

/* Returns the kind of the last component of a path, before links are followed. */
static enum last last_of(const char *path)
{
    size_t end = strlen(path);
    while (end > 0 && path[end - 1] == '/')
        end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (end - start == 1 && path[start] == '.')
        return LAST_DOT;
    return end - start == 2 && memcmp(path + start, "..", 2) == 0 ? LAST_DOT_DOT : LAST_NAME;
}

/* Returns the errno for removing an input. */
static int refuse_removal(const struct fan_target *target, const char *path, int flags)
{
    bool directory = flags & AT_REMOVEDIR;
    switch (last_of(path)) {
    case LAST_DOT:
        return directory ? -EINVAL : -EISDIR;
    case LAST_DOT_DOT:
        return directory ? -ENOTEMPTY : -EISDIR;
    default:
        return target->id != 0 ? -EROFS : directory ? -EBUSY : -EISDIR;
    }
}

FAN_EXPORT int unlinkat(int dirfd, const char *path, int flags)
{
    struct fan_output_call call = {
        .request.op = flags & AT_REMOVEDIR ? FAN_OUTPUT_RMDIR : FAN_OUTPUT_UNLINK};
    struct fan_target target;
    uint64_t pointers = fan_tree_pointers();
    int rc;
    if (flags & ~AT_REMOVEDIR)
        return REAL(unlinkat)(dirfd, path, flags); /* the kernel must report EINVAL */
    if (!fan_output_change(dirfd, path, FAN_NOFOLLOW | FAN_NAME, &call, &target, &rc)) {
        rc = REAL(unlinkat)(target.dirfd, target.path, flags);
        rc = (int)fan_logged("unlink", path, &target, rc);
        if (rc == 0 && target.where == FAN_TREE)
            fan_output_settle(pointers, &target, NULL);
        return rc;
    }
    if (target.where == FAN_INPUT)
        rc = refuse_removal(&target, path, flags);
    return (int)fan_logged("unlink", path, &target, fan_answer(rc));
}

FAN_EXPORT int remove(const char *path)
{
    struct fan_target target;
    int error = errno;
    if (!fan_locate_change(AT_FDCWD, path, FAN_NOFOLLOW | FAN_NAME, &target))
        return REAL(remove)(target.path);
    int rc = unlinkat(AT_FDCWD, path, 0);
    if (rc == 0 || errno != EISDIR)
        return rc;
    errno = error;
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

static bool is_input(const struct fan_end *end)
{
    return end->ours && end->target.where == FAN_INPUT;
}

static bool is_beyond(const struct fan_end *end)
{
    return end->ours && end->target.where == FAN_BEYOND;
}

/* Returns whether an end exists: if so, the daemon decides about it, or it is an input. */
static bool is_there(const struct fan_end *end)
{
    return end->ours && end->target.where != FAN_MISSING;
}

/* Tries a rename of which at least one end is in a mount. Returns 0, -errno, FAN_END_MOVED. */
static int rename_ends(struct fan_end *from, struct fan_end *to, bool plain_names, unsigned flags)
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_RENAME, .flags = flags}};
    bool outputs = is_beyond(from) && is_beyond(to);
    bool inputs = is_input(from) || is_input(to);
    if ((flags & ~RENAME_NOREPLACE) && !(inputs && flags == RENAME_EXCHANGE))
        return -EINVAL; /* as on a file system without RENAME_EXCHANGE */
    if (outputs || ((flags & RENAME_NOREPLACE) && is_there(from) && is_there(to)))
        return fan_output_pair(&call, from, to); /* EEXIST comes before EXDEV */
    int rc = fan_end_reached(from);
    rc = rc == 0 ? fan_end_reached(to) : rc;
    if (rc != 0)
        return rc;
    if (from->ours != to->ours)
        return -EXDEV;
    return plain_names ? fan_refuse_change(&(is_input(from) ? from : to)->target, false) : -EBUSY;
}

static int real_rename(const struct fan_target *from, const struct fan_target *to, unsigned flags)
{
    return flags == 0 ? REAL(renameat)(from->dirfd, from->path, to->dirfd, to->path)
                      : REAL(renameat2)(from->dirfd, from->path, to->dirfd, to->path, flags);
}

struct ends {
    struct fan_end old, new;
};

/* Logs a line for each of two paths. */
static int logged_pair(const char *call, const char *from, const struct fan_end *old,
                       const char *to, const struct fan_end *new, int rc)
{
    fan_logged(call, from, &old->target, rc);
    return (int)fan_logged("  to", to, &new->target, rc);
}

static bool in_tree(const struct fan_end *end)
{
    return end->target.where == FAN_TREE;
}

/* Returns whether the kernel must do the call: both ends are outside, or in one output tree. */
static bool is_kernels(const struct fan_end *a, const struct fan_end *b)
{
    if (a->ours || b->ours || in_tree(a) != in_tree(b))
        return false;
    return !in_tree(a) || a->target.view == b->target.view;
}

/* Renames in the output tree. Counts the beginning and the end, so that a walk over the tree
 * (stage-out) notices the rename. */
static int rename_really(const struct fan_end *from, const struct fan_end *to, unsigned flags)
{
    bool counted = in_tree(from);
    if (counted)
        fan_tree_begin_move();
    int rc = real_rename(&from->target, &to->target, flags);
    if (counted)
        fan_tree_end_move();
    return rc;
}

/* Returns the errno for two ends that are in no single file system: a missing one counts first, and
 * inputs are read-only. */
static int rename_across(struct fan_end *from, struct fan_end *to, bool plain_names, unsigned flags)
{
    const unsigned known = RENAME_NOREPLACE | RENAME_EXCHANGE;
    if ((flags & ~known) || flags == known)
        return -EINVAL;
    int rc = fan_end_reached(from);
    rc = rc == 0 ? fan_end_reached(to) : rc;
    rc = rc == 0 && in_tree(from) ? fan_end_exists(from) : rc;
    if (rc != 0)
        return rc;
    if ((flags & RENAME_NOREPLACE) && is_there(to) && to->ours)
        return -EEXIST;
    bool one = (from->ours || in_tree(from)) && (to->ours || in_tree(to)) &&
               from->target.view == to->target.view;
    if (one && plain_names)
        fan_count_refused(&(is_input(from) ? from : to)->target);
    return !one ? -EXDEV : plain_names ? -EROFS : -EBUSY;
}

/* Makes the daemon decide about both ends if it must decide about one. */
static int ask_both(struct fan_end *a, struct fan_end *b)
{
    struct fan_end *end = is_beyond(a) && in_tree(b) ? b : is_beyond(b) && in_tree(a) ? a : NULL;
    int rc = end != NULL ? fan_tree_ask(&end->target) : 0;
    if (end != NULL && rc == 0)
        end->ours = true;
    return rc;
}

static int rename_any(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    FAN_OFF_STACK(struct ends, ends);
    if (ends == NULL)
        return (int)fan_answer(-ENOMEM);
    struct fan_end *old = &ends->old, *new = &ends->new;
    uint64_t pointers = fan_tree_pointers();
    int rc = FAN_END_MOVED;
    fan_end_locate(old, from_fd, from, FAN_NOFOLLOW | FAN_NAME);
    fan_end_locate(new, to_fd, to, FAN_NOFOLLOW | FAN_NAME | FAN_MAKE);
    bool plain_names =
        (!old->ours || last_of(from) == LAST_NAME) && (!new->ours || last_of(to) == LAST_NAME);
    for (unsigned turns = 0; rc == FAN_END_MOVED && turns < FAN_END_TURNS_MAX; turns++) {
        if (is_kernels(old, new)) {
            rc = rename_really(old, new, flags);
            rc = logged_pair("rename", from, old, to, new, rc);
            if (rc == 0 && in_tree(old) && !(flags & RENAME_EXCHANGE))
                fan_output_settle(pointers, &old->target, &new->target);
            return rc;
        }
        rc = ask_both(old, new);
        if (rc != 0)
            break;
        rc = in_tree(old) || in_tree(new) ? rename_across(old, new, plain_names, flags)
                                          : rename_ends(old, new, plain_names, flags);
    }
    rc = (int)fan_answer(rc == FAN_END_MOVED ? -ELOOP : rc);
    return logged_pair("rename", from, old, to, new, rc);
}

/* Finds out the working directory early, before two paths are on a stack that may be small. */
static void know_directory(void)
{
    if (fan_job.view_count > 0)
        fan_cwd_get();
}

FAN_EXPORT int renameat2(int from_fd, const char *from, int to_fd, const char *to, unsigned flags)
{
    know_directory();
    return rename_any(from_fd, from, to_fd, to, flags);
}

FAN_EXPORT int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return renameat2(from_fd, from, to_fd, to, 0);
}

/* Returns the errno for a link to a file of another file system. */
static int link_across(struct fan_end *to)
{
    if (to->ours && to->target.where != FAN_BEYOND)
        return fan_output_refuse(&to->target, FAN_OUTPUT_LINK);
    int rc = fan_end_exists(to);
    if (rc == 0)
        return -EEXIST;
    rc = rc == -ENOENT ? fan_end_reached(to) : rc;
    return rc == 0 ? -EXDEV : rc;
}

/* Tries once to make a link of which at least one end is in a mount: the old name must exist, the
 * new one must not. */
static int link_ends(struct fan_end *from, struct fan_end *to, unsigned flags)
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_LINK, .flags = flags}};
    if (is_there(from) && is_beyond(to))
        return fan_output_pair(&call, from, to);
    int rc = fan_end_exists(from);
    return rc != 0 ? rc : link_across(to);
}

static int link_any(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    FAN_OFF_STACK(struct ends, ends);
    if (ends == NULL)
        return (int)fan_answer(-ENOMEM);
    struct fan_end *old = &ends->old, *new = &ends->new;
    int rc = FAN_END_MOVED;
    unsigned how = (flags & AT_SYMLINK_FOLLOW ? 0u : FAN_NOFOLLOW) |
                   (flags & AT_EMPTY_PATH ? FAN_EMPTY_PATH : 0u);
    fan_end_locate(old, from_fd, from, how);
    fan_end_locate(new, to_fd, to, FAN_NOFOLLOW | FAN_NAME | FAN_MAKE);
    for (unsigned turns = 0; rc == FAN_END_MOVED && turns < FAN_END_TURNS_MAX; turns++) {
        if (is_kernels(old, new)) {
            rc = REAL(linkat)(old->target.dirfd, old->target.path, new->target.dirfd,
                              new->target.path, flags);
            return logged_pair("link", from, old, to, new, rc);
        }
        rc = ask_both(old, new);
        if (rc != 0)
            break;
        rc = flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) ? -EINVAL
                                                          : link_ends(old, new, (unsigned)flags);
    }
    rc = (int)fan_answer(rc == FAN_END_MOVED ? -ELOOP : rc);
    return logged_pair("link", from, old, to, new, rc);
}

FAN_EXPORT int linkat(int from_fd, const char *from, int to_fd, const char *to, int flags)
{
    know_directory();
    return link_any(from_fd, from, to_fd, to, flags);
}

static bool is_content(const char *content)
{
    return fan_given(content) && content[0] != '\0' && strnlen(content, PATH_MAX) < PATH_MAX;
}

static int real_symlink(const char *content, const struct fan_target *target)
{
    FAN_OFF_STACK(struct fan_path, stored);
    if (target->where != FAN_TREE)
        return REAL(symlinkat)(content, target->dirfd, target->path);
    int rc = stored == NULL ? -ENOMEM : fan_tree_store_link(content, stored->text);
    return rc != 0 ? (int)fan_answer(rc)
                   : REAL(symlinkat)(stored->text, target->dirfd, target->path);
}

FAN_EXPORT int symlinkat(const char *content, int dirfd, const char *path)
{
    struct fan_output_call call = {.request.op = FAN_OUTPUT_SYMLINK, .other = content};
    struct fan_target target;
    int rc;
    if (!is_content(content))
        return REAL(symlinkat)(content, dirfd, path); /* the kernel checks this first */
    rc = fan_output_change(dirfd, path, FAN_NOFOLLOW | FAN_NAME, &call, &target, &rc)
             ? (int)fan_answer(rc)
             : real_symlink(content, &target);
    return (int)fan_logged("symlink", path, &target, rc);
}

FAN_EXPORT int mkdirat(int dirfd, const char *path, mode_t mode)
{
    struct fan_output_call call = {
        .request = {.op = FAN_OUTPUT_MKDIR, .mode = S_IFDIR | (mode & 07777)}};
    struct fan_target target;
    int rc;
    rc = fan_output_change(dirfd, path, FAN_NOFOLLOW | FAN_NAME, &call, &target, &rc)
             ? (int)fan_answer(rc)
             : REAL(mkdirat)(target.dirfd, target.path, mode);
    return (int)fan_logged("mkdir", path, &target, rc);
}

/* Makes the system call: glibc before 2.33 has no `mknodat` to call. */
static int real_mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    __typeof__(&mknodat) call = REAL(mknodat);
    return call != NULL ? call(dirfd, path, mode, device)
                        : (int)fan_answer(FAN_SYS(mknodat, dirfd, path, mode, device));
}

/* Makes a regular file; the daemon refuses other kinds. */
FAN_EXPORT int mknodat(int dirfd, const char *path, mode_t mode, dev_t device)
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_MKNOD, .mode = mode}};
    struct fan_target target;
    int rc;
    rc = fan_output_change(dirfd, path, FAN_NOFOLLOW | FAN_NAME, &call, &target, &rc)
             ? (int)fan_answer(rc)
             : real_mknodat(target.dirfd, target.path, mode, device);
    return (int)fan_logged("mknod", path, &target, rc);
}

/* The function that programs built with glibc before 2.33 call for mknod; only one version
 * exists. */
FAN_EXPORT int __xmknodat(int version, int dirfd, const char *path, mode_t mode, dev_t *device)
{
    return version == 0 ? mknodat(dirfd, path, mode, *device) : (int)fan_answer(-EINVAL);
}
