#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../job/fresh.h"
#include "../paths/linked.h"
#include "../paths/output_tree.h"
#include "change.h"
#include "outputs.h"
#include "writers.h"

enum { AGAIN_MAX = 100, REPLACED = FAN_OPEN_ELSEWHERE - 1 }; /* not an errno */

/* An OPEN request and its answer. */
struct opening {
    struct fan_target *target;
    int flags;
    struct fan_output_answer answer;
    char text[FAN_OUTPUT_PATH_MAX];
};

enum { PASSING = O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW };

/* Returns whether a descriptor allows changes to the file. */
static bool writes(int flags)
{
    return !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
}

static bool is_stand_in(const struct stat *st)
{
    return S_ISDIR(st->st_mode) && (st->st_mode & 07777) == FAN_TREE_STAND_IN_MODE;
}

static int note_in_tree(int fd, struct fan_view *view, int flags)
{
    struct stat st = {.st_mode = 0};
    bool looked = writes(flags) || fan_tree_has_ranks();
    bool known = looked && FAN_SYS(fstat, fd, &st) == 0;
    enum fan_file_kind kind = known && is_stand_in(&st) ? FAN_FILE_OUTDIR : FAN_FILE_OUTPUT;
    struct fan_file *file = fan_file_new(view, 0, kind, (unsigned)(flags & ~PASSING));
    if (file == NULL)
        return -ENFILE;
    if (writes(flags) && known) {
        file->slot->inode = st.st_ino;
        file->slot->writable = true;
        file->writable = true;
        fan_output_taken();
        fan_writer_claim(file);
    }
    return fan_file_install(fd, file);
}

/* Does what note_in_tree does for a descriptor that was just opened. Returns the descriptor, or
 * -errno if it was not opened. */
static int noted_in_tree(int fd, struct fan_view *view, int flags)
{
    if (fd < 0)
        return fd;
    fan_file_remove(fd); /* the program closed this number without us */
    int rc = note_in_tree(fd, view, flags);
    if (rc != 0)
        fan_sys_close(fd);
    return rc != 0 ? rc : fd;
}

/* Opens a path of the tree. Returns REPLACED if the path is missing: the file may have been renamed
 * since, or belong to another rank. */
static int open_tree(const struct opening *opening, int flags, unsigned mode)
{
    struct fan_view *view = opening->target->view;
    int fd = noted_in_tree(fan_sys_openat(AT_FDCWD, opening->text, flags, mode), view, flags);
    return fd == -ENOENT ? REPLACED : fd;
}

static int ask_open(struct opening *opening, unsigned mode)
{
    unsigned resolve = fan_open_resolve(opening->flags);
    struct fan_output_call call = {
        .request = {.op = FAN_OUTPUT_OPEN,
                    .flags = (uint32_t)opening->flags,
                    .mode = opening->flags & O_CREAT ? mode & ~fan_umask() : mode,
                    .how = resolve & FAN_NOFOLLOW ? FAN_OUTPUT_NOFOLLOW : 0}};
    return fan_output_ask_of(opening->target, &call, resolve, &opening->answer, opening->text);
}

/* Notes a descriptor of a file of another rank. */
static int note(int fd, struct fan_view *view, const struct fan_output_attr *attr, int flags)
{
    unsigned status = (unsigned)(flags & ~PASSING);
    return fan_file_give(fd, fan_file_new(view, attr->ino, FAN_FILE_OUTPUT, status));
}

/* Opens a copy of another rank's file. Returns REPLACED if a later version has replaced the
 * copy. */
static int open_copy(const struct opening *opening)
{
    int flags = opening->flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW);
    int fd = fan_sys_openat(AT_FDCWD, opening->text, flags, 0);
    if (fd < 0)
        return fd == -ENOENT ? REPLACED : fd;
    fan_file_remove(fd); /* the program closed this number without us */
    return note(fd, opening->target->view, &opening->answer.attr, opening->flags);
}

/* Moves an open file to the lowest free number, which open(2) would return. When the file came, the
 * link to the daemon had that number. */
static int lowered(int fd, int flags)
{
    int other = fan_sys_fcntl(fd, flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, 0);
    if (other < 0 || other > fd) {
        if (other >= 0)
            fan_sys_close(other);
        if (!(flags & O_CLOEXEC))
            fan_sys_fcntl(fd, F_SETFD, 0);
        return fd;
    }
    fan_sys_close(fd);
    return other;
}

/* Takes the descriptor of a file that the daemon made and opened, because the file may have been
 * renamed since. */
static int take_made(const struct opening *opening)
{
    int fd = opening->answer.fd;
    return fd < 0
               ? -EIO
               : noted_in_tree(lowered(fd, opening->flags), opening->target->view, opening->flags);
}

/* Opens a link with O_PATH: makes a link like one of the tree, with the same target, that has no
 * name any more, and opens that. */
static int open_link(const struct opening *opening)
{
    FAN_OFF_STACK(struct fan_path, stored);
    int rc = stored == NULL ? -ENOMEM : fan_tree_store_link(opening->text, stored->text);
    int fd = rc != 0 ? rc : fan_fresh_link(stored->text, "link", opening->flags);
    return fd < 0 ? fd : note(fd, opening->target->view, &opening->answer.attr, opening->flags);
}

static int obey(const struct opening *opening, unsigned mode)
{
    const int kept = O_CLOEXEC | O_PATH | O_NONBLOCK | O_NOATIME;
    switch (opening->answer.where) {
    case FAN_OUTPUT_ELSEWHERE:
        return FAN_OPEN_ELSEWHERE;
    case FAN_OUTPUT_TREE:
        return open_tree(opening, opening->flags & ~(O_CREAT | O_EXCL), mode); /* the file exists */
    case FAN_OUTPUT_MADE:
        return take_made(opening);
    case FAN_OUTPUT_COPY:
        return open_copy(opening);
    case FAN_OUTPUT_DIRECTORY:
        return open_tree(opening, (opening->flags & kept) | O_DIRECTORY, 0);
    case FAN_OUTPUT_HERE:
        return open_link(opening);
    default:
        return -EIO;
    }
}

int fan_output_open(struct fan_target *target, int flags, unsigned mode)
{
    struct opening opening = {.target = target, .flags = flags};
    for (int i = 0; i < AGAIN_MAX; i++) {
        int rc = ask_open(&opening, mode);
        rc = rc == 0 ? obey(&opening, mode) : rc;
        if (rc != REPLACED)
            return rc;
    }
    return -ESTALE;
}

/* Returns the error for a file that cannot be made because its directory is missing: -EIO if the
 * whole tree was removed (by a cleaner of /tmp), which must not look as if the program forgot to
 * make the directory. */
static int tree_error(const struct fan_view *view)
{
    struct stat st;
    long rc = FAN_SYS(newfstatat, AT_FDCWD, view->outputs.text, &st, AT_SYMLINK_NOFOLLOW);
    return rc == 0 ? -ENOENT : -EIO;
}

/* Opens a path from a descriptor of the tree, so that the kernel need not look for the job
 * directory each time. Returns -EBADF if the caller must use the whole path. */
static int open_from_top(const struct fan_target *target, int flags, unsigned mode)
{
    const char *path;
    int top = target->where == FAN_TREE ? fan_tree_top(target, &path) : -1;
    int fd = top >= 0 ? fan_sys_openat(top, path, flags, mode) : -EBADF;
    return fd == -ENOENT || fd == -ENOTDIR ? -EBADF : fd;
}

int fan_tree_open(const struct fan_target *target, int flags, unsigned mode)
{
    int fd = open_from_top(target, flags, mode);
    if (fd == -EBADF)
        fd = fan_sys_openat(target->dirfd, target->path, flags, mode);
    if (fd == -ENOENT && (flags & O_CREAT))
        return tree_error(target->view);
    return noted_in_tree(fd, target->view, flags);
}

bool fan_tree_noticed(int fd)
{
    const char *rest;
    FAN_OFF_STACK(struct fan_path, path);
    if (path == NULL || fan_fd_path_real(fd, path->text, sizeof(path->text)) <= 0)
        return false;
    struct fan_view *view = fan_outputs_match(path->text, &rest);
    int flags = view != NULL ? fan_sys_fcntl(fd, F_GETFL, 0) : -1;
    return flags >= 0 && note_in_tree(fd, view, flags) == 0;
}

bool fan_output_reopened(int fd, const char *path)
{
    bool kernels = strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/", 5) == 0;
    return kernels && fan_tree_noticed(fd);
}
