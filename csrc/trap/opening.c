/* Answers open and related calls: makes a descriptor of the kernel for each file of a mount. */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../client/content/realcopy.h"
#include "../client/files/filetable.h"
#include "../client/outputs/outputs.h"
#include "../client/paths/linked.h"
#include "../common/descriptor.h"
#include "../common/sys.h"
#include "handlers.h"
#include "target.h"
#include "tree.h"

/* The largest copy that is kept in memory. It is smaller than in the library, because a supervisor
 * makes a copy for each open. */
enum { IN_MEMORY_BYTES = 64 << 20 };

/* Opens the real directory that stands for a directory of a mount. */
static int open_directory(int fd, int flags)
{
    char path[PATH_MAX];
    const char *rest;
    const struct fan_file *file = fan_file_get(fd);
    long length = file->record != NULL
                      ? (long)fan_full_path(file->view, file->dataset, file->id, path, PATH_MAX)
                      : fan_fd_path(fd, path, PATH_MAX);
    struct fan_view *view = length > 0 ? fan_match_prefix(path, &rest) : NULL;
    if (view == NULL)
        return length < 0 ? (int)length : -ENOENT;
    bool fixed = file->record != NULL && !fan_view_touched(view, file->id);
    return fan_trap_tree_open(view, rest, path, fixed ? file->id : FAN_TRAP_TREE_CHANGES, flags);
}

/* Makes the library forget a descriptor, which stays open. */
static int bare(int fd)
{
    struct fan_file *file = fan_file_get(fd);
    if (file != NULL) {
        fan_output_disown(file);
        fan_file_remove(fd);
    }
    return fd;
}

/* Opens the file of an O_PATH descriptor for reading, because such a descriptor cannot be given to
 * another process. */
static int readable(int fd, int flags)
{
    if (!(flags & O_PATH))
        return fd;
    int again = fan_fd_reopen(fd, O_RDONLY | O_NONBLOCK | O_NOCTTY);
    fan_sys_close(fd);
    return again;
}

static long give_output(const struct fan_call *call, int fd, int flags)
{
    bool cloexec = flags & O_CLOEXEC;
    fd = readable(bare(fd), flags);
    return fd < 0 ? fd : fan_call_give(call, fd, cloexec);
}

/* Gives the caller a descriptor of the kernel for the file that was opened here. */
static long hand_over(const struct fan_call *call, int fd, int flags)
{
    bool cloexec = flags & O_CLOEXEC;
    struct fan_file *file = fan_file_get(fd);
    int real = -EIO;
    if (file == NULL) {
        fd = readable(fd, flags);
        return fd < 0 ? fd : fan_call_give(call, fd, cloexec);
    }
    switch (atomic_load(&file->kind)) {
    case FAN_FILE_OUTPUT:
        return give_output(call, fd, flags);
    case FAN_FILE_REGULAR:
        real = fan_real_open(file, flags & (O_APPEND | O_NONBLOCK | O_NOATIME), IN_MEMORY_BYTES);
        break;
    case FAN_FILE_PATH:
        real = fan_real_name(file);
        break;
    case FAN_FILE_DIRECTORY:
    case FAN_FILE_OUTDIR:
        real = open_directory(fd, flags);
        break;
    }
    close(fd);
    return real < 0 ? real : fan_call_give(call, real, cloexec);
}

static long open_place(const struct fan_call *call, struct fan_spot *spot, int flags, mode_t mode)
{
    if (flags & (O_CREAT | __O_TMPFILE))
        fan_call_umask(call);
    int fd = open(spot->path, flags | O_CLOEXEC | O_NOCTTY, mode);
    return fd < 0 ? -errno : hand_over(call, fd, flags);
}

static bool follows(int flags)
{
    return !(flags & O_NOFOLLOW) && (flags & (O_CREAT | O_EXCL)) != (O_CREAT | O_EXCL);
}

/* Reads the flags and mode of an open, for any of the calls. Returns false if the kernel must
 * report what is wrong. */
static bool reads_how(const struct fan_call *call, struct open_how *how)
{
    switch (call->number) {
#ifdef SYS_open
    case SYS_open:
        how->flags = (unsigned)call->args[1];
        how->mode = (mode_t)call->args[2];
        return true;
    case SYS_creat:
        how->flags = O_CREAT | O_WRONLY | O_TRUNC;
        how->mode = (mode_t)call->args[1];
        return true;
#endif
    case SYS_openat:
        how->flags = (unsigned)call->args[2];
        how->mode = (mode_t)call->args[3];
        return true;
    default:
        return call->args[3] == sizeof(*how) &&
               fan_target_read(call->tid, call->args[2], how, sizeof(*how)) == 0;
    }
}

long fan_handle_open(const struct fan_call *call)
{
    struct open_how how = {0};
    struct fan_spot spot;
    bool at_form = call->number == SYS_openat || call->number == SYS_openat2;
    if (!reads_how(call, &how) ||
        !fan_call_find(call, at_form ? (int)call->args[0] : AT_FDCWD, call->args[at_form],
                       follows((int)how.flags) ? FAN_SPOT_FOLLOW : 0, &spot))
        return FAN_CALL_CONTINUE;
    if (how.resolve != 0) /* refused as by a kernel without this call */
        return -ENOSYS;
    return open_place(call, &spot, (int)how.flags, (mode_t)how.mode);
}
