#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "../common/sys.h"
#include "content_io.h"
#include "linked.h"
#include "remote.h"
#include "skeleton.h"

int fan_refuse_change(const struct fan_target *target, bool exclusive)
{
    FAN_COUNT(refused_writes, 1);
    if (target->where == FAN_MISSING)
        return target->error == ENOENT && target->creatable && exclusive ? -EROFS : -target->error;
    return exclusive ? -EEXIST : -EROFS;
}

/* Whether this process may do what is the owner's. */
static bool owns(const struct fan_target *target)
{
    const struct fan_index *index = &target->dataset->index;
    uid_t uid = (uid_t)FAN_SYS(geteuid);
    uint16_t owner = target->record->owner;
    return uid == 0 || (owner < index->owner_count && index->owners[owner].uid == uid);
}

/* Which errno open's flags earn before content is looked at; 0 to go on. */
static int check_flags(const struct fan_target *target, int flags)
{
    uint16_t mode = target->record->mode;
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
    int rc = fan_permitted(target->dataset, target->id, R_OK, true);
    return rc == 0 && (flags & O_NOATIME) && !owns(target) ? -EPERM : rc;
}

/* A file whose blocks are to be kept while it is open. */
static void announce(struct fan_file *file)
{
    if (file->record->logical_size > 0 &&
        fan_view_place(file->view, file->record->pack) == FAN_PLACE_REMOTE)
        fan_remote_open(file);
}

static int open_file(const struct fan_target *target, int flags, enum fan_file_kind kind)
{
    struct fan_file *file = fan_file_new(target->view, target->id, kind,
                                         (unsigned)flags & ~(unsigned)(O_CREAT | O_CLOEXEC |
                                                                       O_NOCTTY | O_NOFOLLOW));
    if (file == NULL)
        return -ENFILE;
    int rc = kind == FAN_FILE_REGULAR ? fan_content_open(file) : 0;
    int fd = rc == 0 ? fan_placeholder(0, (flags & O_CLOEXEC) != 0) : rc;
    if (fd < 0) {
        fan_file_put(file);
        return fd;
    }
    if (kind == FAN_FILE_REGULAR && file->data == NULL)
        announce(file);
    rc = fan_file_install(fd, file);
    if (rc != 0)
        fan_sys_close(fd);
    return rc != 0 ? rc : fd;
}

static int open_directory(const struct fan_target *target, int flags)
{
    struct fan_file *file =
        fan_file_new(target->view, target->id, FAN_FILE_DIRECTORY, (unsigned)flags & ~O_CLOEXEC);
    if (file == NULL)
        return -ENFILE;
    int keep = flags & (O_CLOEXEC | O_PATH | O_NONBLOCK | O_NOATIME);
    int fd = fan_skeleton_open(target->view, target->dataset, target->id, keep);
    if (fd < 0 && fd != -EMFILE && fd != -ENFILE)
        fd = fan_placeholder(0, (flags & O_CLOEXEC) != 0);
    if (fd < 0) {
        fan_file_put(file);
        return fd;
    }
    FAN_COUNT(directory_opens, 1);
    int rc = fan_file_install(fd, file);
    if (rc != 0)
        fan_sys_close(fd);
    return rc != 0 ? rc : fd;
}

/* O_CREAT of a name that is not there, or that is a file and has a slash behind it. */
static int refuse_creation(const struct fan_target *target)
{
    if (target->slash && (target->error == ENOTDIR || target->creatable))
        return -EISDIR;
    return fan_refuse_change(target, true);
}

int fan_open(const struct fan_target *target, int flags)
{
    if (flags & O_PATH) /* open(2): the others are ignored */
        flags &= O_PATH | O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW;
    if ((flags & O_CREAT) && (flags & O_DIRECTORY)) /* Linux 6.4 */
        return -EINVAL;
    if (target->where == FAN_MISSING) {
        if (flags & O_CREAT)
            return refuse_creation(target);
        FAN_COUNT(missing, 1);
        return -target->error;
    }
    if ((flags & O_TMPFILE) == O_TMPFILE)
        return (flags & O_ACCMODE) == O_RDONLY ? -EINVAL
               : S_ISDIR(target->record->mode) ? -EROFS
                                               : -ENOTDIR;
    int rc = check_flags(target, flags);
    if (rc != 0) {
        if (rc == -EROFS)
            FAN_COUNT(refused_writes, 1);
        return rc;
    }
    if (S_ISDIR(target->record->mode))
        return open_directory(target, flags);
    if (flags & O_PATH)
        return open_file(target, flags, FAN_FILE_PATH);
    FAN_COUNT(opens, 1);
    return open_file(target, flags, FAN_FILE_REGULAR);
}

static bool note(int fd, struct fan_view *view, uint64_t id, enum fan_file_kind kind, int flags)
{
    struct fan_file *file = fan_file_new(view, id, kind, (unsigned)flags & ~O_CLOEXEC);
    return file != NULL && fan_file_install(fd, file) == 0;
}

bool fan_open_noticed(int fd, int flags)
{
    char real[PATH_MAX];
    struct fan_target target;
    struct fan_view *view;
    const char *rest;
    if (fan_job.view_count == 0 || fan_fd_path(fd, real, sizeof(real)) <= 0)
        return false;
    if (fan_match_prefix(real, &rest) != NULL)
        return fan_locate(AT_FDCWD, real, 0, &target) && target.where == FAN_INPUT &&
               S_ISDIR(target.record->mode) &&
               note(fd, target.view, target.id, FAN_FILE_DIRECTORY, flags);
    size_t above = fan_match_above(real, &view);
    if (above > 0)
        note(fd, view, above, FAN_FILE_NEAR, 0);
    return false;
}
