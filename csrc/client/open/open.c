#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../content/content_io.h"
#include "../content/original.h"
#include "../content/realcopy.h"
#include "../content/remote.h"
#include "../outputs/change.h"
#include "../paths/cwd.h"
#include "../paths/linked.h"
#include "../paths/output_tree.h"
#include "../paths/skeleton.h"

/* Returns whether this process may do what only the owner may. */
static bool owns(const struct fan_target *target)
{
    const struct fan_index *index = &target->dataset->index;
    uid_t uid = (uid_t)FAN_SYS(geteuid);
    uint16_t owner = target->record->owner;
    return uid == 0 || (owner < index->owner_count && index->owners[owner].uid == uid);
}

/* Returns the error that open's flags cause before the content matters, or 0. */
static int check_flags(const struct fan_target *target, int flags)
{
    uint32_t mode = target->mode;
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL) && !(flags & O_PATH))
        return -EEXIST;
    if (S_ISLNK(mode))
        return (flags & O_PATH) ? 0 : (flags & O_DIRECTORY) ? -ENOTDIR : -ELOOP;
    if ((flags & O_DIRECTORY) && !S_ISDIR(mode))
        return -ENOTDIR;
    if (flags & O_PATH)
        return 0;
    if (fan_open_changes(flags) && S_ISDIR(mode))
        return -EISDIR;
    if ((flags & O_ACCMODE) != O_RDONLY || (flags & O_TRUNC))
        return -EROFS;
    bool readable = S_ISREG(mode) && target->dataset->all_readable;
    int rc = readable ? 0 : fan_permitted(target->dataset, target->id, R_OK, true);
    return rc == 0 && (flags & O_NOATIME) && !owns(target) ? -EPERM : rc;
}

/* Tells the daemon to keep a file's blocks while the file is open, if they come from the daemon. */
static void announce(struct fan_file *file)
{
    if (file->record->logical_size == 0)
        return;
    uint32_t place = fan_view_place(file->view, file->record->pack);
    if (place == FAN_PLACE_REMOTE || place == FAN_PLACE_PARTIAL)
        fan_remote_open(file);
}

static int open_file(const struct fan_target *target, int flags, enum fan_file_kind kind)
{
    struct fan_file *file = fan_file_new(target->view, target->id, kind,
                                         (unsigned)flags & ~(unsigned)(O_CREAT | O_EXCL | O_TRUNC |
                                                                       O_NOCTTY | O_CLOEXEC));
    if (file == NULL)
        return -ENFILE;
    int fd = fan_placeholder(0, (flags & O_CLOEXEC) != 0);
    int rc = fd >= 0 && kind == FAN_FILE_REGULAR ? fan_content_open(file) : 0;
    if (fd < 0 || rc != 0) {
        fan_file_put(file);
        if (fd >= 0)
            fan_sys_close(fd);
        return fd < 0 ? fd : rc;
    }
    __builtin_prefetch(file->data); /* usually read next; more lines cost more than they save */
    if (kind == FAN_FILE_REGULAR && file->data == NULL)
        announce(file);
    return fan_file_give(fd, file);
}

static int open_directory(const struct fan_target *target, int flags)
{
    struct fan_file *file =
        fan_file_new(target->view, target->id, FAN_FILE_DIRECTORY, (unsigned)flags & ~O_CLOEXEC);
    if (file == NULL)
        return -ENFILE;
    int keep = flags & (O_CLOEXEC | O_PATH | O_NONBLOCK | O_NOATIME | O_DIRECTORY | O_NOFOLLOW);
    int fd = fan_skeleton_open(target->view, target->dataset, target->id, keep);
    if (fd < 0 && fd != -EMFILE && fd != -ENFILE)
        fd = fan_placeholder(0, (flags & O_CLOEXEC) != 0);
    if (fd < 0) {
        fan_file_put(file);
        return fd;
    }
    FAN_COUNT(directory_opens, 1);
    return fan_file_give(fd, file);
}

/* Opens a file of the kernel. Forgets any file of the library at its number: the program closed
 * that without the library. */
static int real_open(int dirfd, const char *path, int flags, unsigned mode)
{
    int fd = fan_sys_openat(dirfd, path, flags, mode);
    if (fd >= 0)
        fan_file_remove(fd);
    return fd;
}

/* Opens an unnamed file in a directory of the dataset, in its counterpart in the output tree, where
 * it may be given a name. */
static int open_unnamed(const struct fan_target *target, int flags, unsigned mode)
{
    FAN_OFF_STACK(struct fan_path, path);
    int rc = path == NULL ? -ENOMEM
                          : fan_tree_counterpart(target->view, target->dataset, target->id,
                                                 path->text, sizeof(path->text));
    if (rc != 0)
        return rc;
    struct fan_target there = {
        .where = FAN_TREE, .view = target->view, .dirfd = AT_FDCWD, .path = path->text};
    return fan_tree_open(&there, flags, mode);
}

/* Opens a file that has changed since its dataset was listed. */
static int open_original(const struct fan_target *target, int flags)
{
    int fd = fan_original_open(target->view, target->dataset, target->id, flags);
    if (fd >= 0) {
        fan_file_remove(fd);
        fan_trace_open(target->view->number, target->id);
    }
    return (int)fan_count_error(fd);
}

static int open_input(const struct fan_target *target, int flags, unsigned mode)
{
    bool directory = S_ISDIR(target->mode);
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return (flags & O_ACCMODE) == O_RDONLY ? -EINVAL
               : directory                     ? open_unnamed(target, flags, mode)
                                               : -ENOTDIR;
    int rc = check_flags(target, flags);
    if (rc != 0) {
        if (rc == -EROFS)
            fan_count_refused(target);
        return rc;
    }
    if (directory)
        return open_directory(target, flags);
    if (flags & O_PATH)
        return open_file(target, flags, FAN_FILE_PATH);
    if (__builtin_expect(target->dataset->has_originals, 0) &&
        fan_original_differs(target->view, target->dataset, target->id))
        return open_original(target, flags);
    fan_trace_open(target->view->number, target->id);
    return (int)fan_count_error(open_file(target, flags, FAN_FILE_REGULAR));
}

/* Opens a target about which the daemon is asked. An unnamed file is made in this rank's directory
 * that stands for the other rank's. */
static int open_beyond(struct fan_target *target, int flags, unsigned mode)
{
    if ((flags & O_CREAT) && target->slash && target->creatable)
        return -EISDIR;
    if ((flags & O_TMPFILE) != O_TMPFILE)
        return fan_output_open(target, flags, mode);
    int fd = (flags & O_ACCMODE) == O_RDONLY
                 ? -EINVAL
                 : fan_output_open(target, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int unnamed = real_open(fd, ".", flags, mode);
    fan_file_close(fd);
    return unnamed;
}

static int open_missing(const struct fan_target *target, int flags)
{
    if ((flags & O_CREAT) && target->slash && target->error == ENOTDIR)
        return -EISDIR;
    FAN_COUNT(missing, 1);
    return -target->error;
}

/* Opens a file that existed a moment ago, and does not make it again. */
static int open_there(struct fan_target *target, int flags, unsigned mode)
{
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL))
        return -EEXIST;
    int fd = fan_tree_open(target, flags & ~O_CREAT, mode);
    if (fd != -ENOENT)
        return fd;
    int rc = fan_tree_ask(target);
    return rc == 0 ? open_beyond(target, flags, mode) : rc;
}

static int open_once(struct fan_target *target, int flags, unsigned mode)
{
    switch (target->where) {
    case FAN_OUTSIDE: /* a link among the outputs led there */
        return real_open(target->dirfd, target->path, flags, mode);
    case FAN_TREE:
        return (flags & O_CREAT) && target->there ? open_there(target, flags, mode)
                                                  : fan_tree_open(target, flags, mode);
    case FAN_INPUT:
        return open_input(target, flags, mode);
    case FAN_MISSING:
        return open_missing(target, flags);
    default:
        return open_beyond(target, flags, mode);
    }
}

int fan_open(struct fan_target *target, int flags, unsigned mode)
{
    int fd;
    if (flags & O_PATH) /* open(2) ignores the other flags */
        flags &= O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;
    if ((flags & O_CREAT) && (flags & O_DIRECTORY)) /* as since Linux 6.4 */
        return -EINVAL;
    do {
        fd = open_once(target, flags, mode);
    } while (fd == FAN_OPEN_ELSEWHERE); /* fan_locate_again bounds it */
    return fd;
}

static bool note(int fd, struct fan_view *view, uint64_t id, enum fan_file_kind kind, int flags)
{
    struct fan_file *file = fan_file_new(view, id, kind, (unsigned)flags & ~O_CLOEXEC);
    return file != NULL && fan_file_install(fd, file) == 0;
}

bool fan_open_noticed(int fd, int flags)
{
    struct fan_view *view;
    const char *rest;
    if (fan_job.view_count == 0 || fan_is_far_fd(fd))
        return false;
    FAN_OFF_STACK(struct fan_target_room, room);
    if (room == NULL || fan_fd_path_real(fd, room->path, sizeof(room->path)) <= 0 ||
        fan_outputs_match(room->path, &rest) != NULL || /* opened at its place in the tree */
        fan_unskeleton(room->path, strlen(room->path), sizeof(room->path)) < 0)
        return false;
    const struct fan_target *target = &room->target;
    if (fan_match_prefix(room->path, &rest) != NULL) {
        if (!fan_locate(AT_FDCWD, room->path, 0, &room->target))
            return false;
        return target->where == FAN_INPUT && S_ISDIR(target->record->mode) &&
               note(fd, target->view, target->id, FAN_FILE_DIRECTORY, flags);
    }
    size_t above = fan_match_above(room->path, &view);
    if (above > 0)
        note(fd, view, above, FAN_FILE_NEAR, 0);
    return false;
}

int fan_open_copy(struct fan_target *target)
{
    int fd = fan_open(target, O_RDONLY | O_CLOEXEC, 0);
    struct fan_file *file = fd >= 0 ? fan_file_get(fd) : NULL;
    if (file == NULL)
        return fd; /* an original is an ordinary file already */
    int copy = file->kind == FAN_FILE_REGULAR ? fan_real_copy(file) : -EISDIR;
    fan_file_close(fd);
    return copy;
}
