#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../job/known.h"
#include "../job/objects.h"
#include "../machine/spelling.h"
#include "../paths/by_proc.h"
#include "../paths/skeleton.h"
#include "../paths/linked.h"
#include "../paths/output_tree.h"
#include "outputs.h"
#include "own.h"
#include "writers.h"

enum { AGAIN_MAX = 100, REPLACED = FAN_OPEN_ELSEWHERE - 1 }; /* no errno */

/* What the answer to OPEN is about, and what it says. */
struct opening {
    struct fan_target *target;
    int flags;
    struct fan_output_answer answer;
    char text[FAN_OUTPUT_PATH_MAX];
};

/* An open that only reads, of what is known: what the daemon would answer. FAN_NAMES_ASK: it is to
 * be asked. */
static int known(struct opening *opening, int flags, unsigned resolve)
{
    struct fan_target *target = opening->target;
    struct fan_output_answer *answer = &opening->answer;
    if (fan_open_changes(flags) || (flags & (O_CREAT | O_TRUNC | O_ACCMODE)))
        return FAN_NAMES_ASK;
    int rc = fan_output_known(target->view, target->path, target->base_bytes,
                              (resolve & FAN_NOFOLLOW) == 0, answer, opening->text);
    if (rc != 0)
        return rc;
    if (S_ISDIR(answer->attr.mode)) {
        strcpy(opening->text, target->path);
        answer->where = FAN_OUTPUT_DIRECTORY;
        return 0;
    }
    if (!S_ISREG(answer->attr.mode) || !fan_output_object_path(answer->attr.object, opening->text))
        return FAN_NAMES_ASK;
    answer->where = FAN_OUTPUT_EXISTING;
    return flags & O_DIRECTORY ? -ENOTDIR : 0;
}

static int ask_open(struct opening *opening, int flags, unsigned mode)
{
    unsigned resolve = fan_open_resolve(flags);
    int rc = known(opening, flags, resolve);
    if (rc == FAN_NAMES_ASK)
        rc = fan_own_create(opening->target, flags, mode, &opening->answer, opening->text);
    if (rc != FAN_NAMES_ASK)
        return rc;
    struct fan_output_call call = {
        .request = {.op = FAN_OUTPUT_OPEN,
                    .flags = (uint32_t)flags,
                    .mode = mode,
                    .how = resolve & FAN_NOFOLLOW ? FAN_OUTPUT_NOFOLLOW : 0}};
    return fan_output_ask_of(opening->target, &call, resolve, &opening->answer, opening->text);
}

static bool may_change(const struct opening *opening)
{
    return !(opening->flags & O_PATH) &&
           (opening->answer.where == FAN_OUTPUT_CREATE ||
            opening->answer.where == FAN_OUTPUT_CUT ||
            (opening->flags & O_ACCMODE) != O_RDONLY);
}

/* The open that the daemon allowed came to nothing. */
static void abandon(const struct opening *opening)
{
    uint64_t object = opening->answer.attr.object;
    struct fan_output_call call = {
        .request = {.op = FAN_OUTPUT_ABANDON, .object_count = 1}, .objects = &object};
    struct fan_output_answer answer;
    if (may_change(opening) && !fan_output_held(object, NULL))
        fan_output_ask(&call, &answer, NULL);
}

static int note(int fd, struct fan_view *view, const struct fan_output_attr *attr, int flags,
                bool writable)
{
    const int passing = O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
    struct fan_file *file =
        fan_file_new(view, attr->object, FAN_FILE_OUTPUT, (unsigned)(flags & ~passing));
    if (file == NULL)
        return -ENFILE;
    file->slot->inode = attr->ino;
    file->slot->writable = writable;
    file->writable = writable;
    if (writable)
        fan_output_taken();
    return fan_file_install(fd, file);
}

/* The real file, as the answer has it. */
static int open_real(struct opening *opening)
{
    int flags = opening->flags & ~(O_CREAT | O_EXCL | O_TRUNC | O_NOFOLLOW);
    unsigned mode = opening->answer.attr.mode & 07777;
    if (opening->answer.where == FAN_OUTPUT_CUT)
        flags |= O_TRUNC;
    if (opening->answer.where != FAN_OUTPUT_CREATE)
        return fan_output_object_open(opening->text, flags, mode);
    int fd = fan_output_object_open(opening->text, flags | O_CREAT | O_EXCL, mode);
    if (fd >= 0 && opening->answer.attr.nlink > 0)
        FAN_SYS(fchmod, fd, mode); /* that of the version before, whatever the umask */
    return fd;
}

/* FanStore itself lets the owner of a file read it for a moment, to read a file without that right.
 */
static bool is_denied(const struct opening *opening)
{
    const struct fan_output_attr *attr = &opening->answer.attr;
    return opening->answer.where != FAN_OUTPUT_CREATE && !(attr->mode & S_IRUSR) &&
           !(opening->flags & O_PATH) && (opening->flags & O_ACCMODE) != O_WRONLY &&
           fan_output_permitted(attr, R_OK, true) != 0;
}

static int open_file(struct opening *opening)
{
    int fd = is_denied(opening) ? -EACCES : open_real(opening);
    bool created = opening->answer.where == FAN_OUTPUT_CREATE;
    if ((fd == -ENOENT || fd == -ESTALE) && !created)
        return REPLACED;
    int rc = fd < 0 ? fd
                    : note(fd, opening->target->view, &opening->answer.attr, opening->flags,
                           may_change(opening));
    if (rc >= 0)
        return fd;
    if (fd >= 0)
        fan_sys_close(fd);
    abandon(opening);
    return rc;
}

int fan_output_note_directory(int fd, struct fan_view *view, int flags)
{
    struct fan_file *file =
        fan_file_new(view, 0, FAN_FILE_OUTDIR, (unsigned)(flags & ~O_CLOEXEC));
    struct stat st;
    if (file == NULL)
        return -ENFILE;
    if (FAN_SYS(fstat, fd, &st) == 0)
        file->slot->inode = st.st_ino;
    return fan_file_install(fd, file);
}

static __attribute__((noinline)) int open_directory(const struct opening *opening)
{
    struct fan_view *view = opening->target->view;
    int keep = opening->flags & (O_CLOEXEC | O_PATH | O_NONBLOCK | O_NOATIME);
    int fd = fan_skeleton_open_output(view, opening->text, keep);
    if (fd < 0)
        return fd;
    FAN_COUNT(directory_opens, 1);
    int rc = fan_output_note_directory(fd, view, opening->flags);
    if (rc != 0)
        fan_sys_close(fd);
    return rc != 0 ? rc : fd;
}

/* O_PATH of a link: of one that is just like it, and has no name any more. */
static __attribute__((noinline)) int open_link(const struct opening *opening)
{
    static atomic_uint number;
    char path[PATH_MAX];
    const struct fan_text *job = &fan_job.directory;
    if (!fan_join(path, sizeof(path) - 32, job->text, job->bytes, "link-"))
        return -ENAMETOOLONG;
    char *at = fan_put_number(path + strlen(path), (unsigned)FAN_SYS(gettid));
    *at++ = '-';
    *fan_put_number(at, atomic_fetch_add(&number, 1)) = '\0';
    int fd = (int)FAN_SYS(symlinkat, opening->text, AT_FDCWD, path);
    if (fd < 0)
        return fd;
    fd = fan_sys_openat(AT_FDCWD, path, opening->flags, 0);
    FAN_SYS(unlinkat, AT_FDCWD, path, 0);
    if (fd < 0)
        return fd;
    int rc = note(fd, opening->target->view, &opening->answer.attr, opening->flags, false);
    if (rc != 0)
        fan_sys_close(fd);
    return rc != 0 ? rc : fd;
}

static int obey(struct opening *opening)
{
    switch (opening->answer.where) {
    case FAN_OUTPUT_ELSEWHERE:
        return FAN_OPEN_ELSEWHERE;
    case FAN_OUTPUT_CREATE:
    case FAN_OUTPUT_EXISTING:
    case FAN_OUTPUT_CUT:
        return open_file(opening);
    case FAN_OUTPUT_DIRECTORY:
        return open_directory(opening);
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
        int rc = ask_open(&opening, flags, mode);
        rc = rc == 0 ? obey(&opening) : rc;
        if (rc != REPLACED)
            return rc;
    }
    return -ESTALE;
}

/* Whether the file may change through a descriptor. */
static bool writes(int flags)
{
    return !(flags & O_PATH) && (flags & O_ACCMODE) != O_RDONLY;
}

static int note_in_tree(int fd, struct fan_view *view, int flags)
{
    const int passing = O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
    struct fan_file *file = fan_file_new(view, 0, FAN_FILE_OUTPUT, (unsigned)(flags & ~passing));
    struct stat st;
    if (file == NULL)
        return -ENFILE;
    if (writes(flags) && FAN_SYS(fstat, fd, &st) == 0) {
        file->slot->inode = st.st_ino;
        file->slot->writable = true;
        file->writable = true;
        fan_output_taken();
        fan_writer_claim(file);
    }
    return fan_file_install(fd, file);
}

/* What a file that cannot be made for want of its directory answers: whoever removed the whole tree
 * (a cleaner of /tmp) is not to be taken for a program that has not made that. */
static int tree_error(const struct fan_view *view)
{
    struct stat st;
    long rc = FAN_SYS(newfstatat, AT_FDCWD, view->outputs.text, &st, AT_SYMLINK_NOFOLLOW);
    return rc == 0 ? -ENOENT : -EIO;
}

/* The kernel need not look for the job directory each time. -EBADF: by the whole path. */
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
    if (fd < 0)
        return fd;
    fan_file_remove(fd); /* a number of ours that was closed past us */
    int rc = note_in_tree(fd, target->view, flags);
    if (rc != 0)
        fan_sys_close(fd);
    return rc != 0 ? rc : fd;
}

bool fan_tree_noticed(int fd)
{
    const char *rest;
    FAN_OFF_STACK(struct fan_path, path);
    if (!fan_tree_used() || path == NULL ||
        fan_fd_path_real(fd, path->text, sizeof(path->text)) <= 0)
        return false;
    struct fan_view *view = fan_outputs_match(path->text, &rest);
    int flags = view != NULL ? fan_sys_fcntl(fd, F_GETFL, 0) : -1;
    return flags >= 0 && note_in_tree(fd, view, flags) == 0;
}

bool fan_output_reopened(int fd, const char *path, int flags)
{
    if (fan_tree_used()) {
        bool kernels = strncmp(path, "/proc/", 6) == 0 || strncmp(path, "/dev/", 5) == 0;
        return kernels && fan_tree_noticed(fd);
    }
    int from = fan_proc_fd(path);
    const struct fan_file *file = from >= 0 && from != fd ? fan_file_get(from) : NULL;
    if (file == NULL || file->kind != FAN_FILE_OUTPUT)
        return false;
    struct fan_output_attr attr = {.object = file->id, .ino = file->slot->inode};
    bool writable = file->writable && (flags & O_ACCMODE) != O_RDONLY;
    return note(fd, file->view, &attr, flags, writable) == 0;
}

void fan_output_received(int fd)
{
    if (fan_job.view_count == 0 || fan_tree_noticed(fd) || fan_tree_used())
        return;
    FAN_OFF_STACK(struct fan_target_room, room);
    int flags = fan_sys_fcntl(fd, F_GETFL, 0);
    uint64_t object = room != NULL ? fan_output_of_fd(fd, room->path) : 0;
    if (object != 0 && (flags & O_ACCMODE) == O_RDONLY &&
        fan_locate(AT_FDCWD, room->path, FAN_NOFOLLOW, &room->target) &&
        room->target.where == FAN_OUTPUT && room->target.attr.object == object)
        note(fd, room->target.view, &room->target.attr, flags, false);
}
