#include "own.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../job/known.h"
#include "../job/objects.h"
#include "turn.h"

enum {
    BLOCK_BYTES = 512,
    DIRECTORY_BYTES = 4096,
    SLOW_UNLINK_BYTES = 64 << 20 /* the daemon removes these, which takes long */
};

static bool path_of(const struct fan_target *target, struct fan_names_path *path, bool *slash)
{
    return target->where == FAN_BEYOND &&
           fan_output_path(target->view, target->path, target->base_bytes, path, slash);
}

bool fan_own_path(const struct fan_target *target, struct fan_names_path *path)
{
    bool slash;
    return path_of(target, path, &slash) && !slash;
}

int fan_own_create(const struct fan_target *target, int flags, unsigned mode,
                   struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX])
{
    const int others = O_PATH | O_DIRECTORY | (O_TMPFILE & ~O_DIRECTORY);
    struct fan_wish wish = {.change.kind = FAN_CHANGE_CREATED};
    if ((flags & others) || !(flags & O_CREAT) || (flags & O_ACCMODE) == O_RDONLY ||
        !fan_own_path(target, &wish.path))
        return FAN_NAMES_ASK;
    wish.change.attr.mode = S_IFREG | (mode & 07777);
    int rc = fan_turn(&wish);
    *answer = (struct fan_output_answer){.where = FAN_OUTPUT_CREATE, .attr = wish.change.attr};
    /* It is this rank's own, so its path is known; but for its length. */
    if (rc == 0 && !fan_output_object_path(answer->attr.object, text))
        text[0] = '\0';
    return rc;
}

struct fan_output_attr fan_output_attr_of(const struct stat *st)
{
    const int64_t second = 1000000000;
    return (struct fan_output_attr){.size = (uint64_t)st->st_size,
                                    .blocks = (uint64_t)st->st_blocks,
                                    .atime_ns = st->st_atim.tv_sec * second + st->st_atim.tv_nsec,
                                    .mtime_ns = st->st_mtim.tv_sec * second + st->st_mtim.tv_nsec,
                                    .ctime_ns = st->st_ctim.tv_sec * second + st->st_ctim.tv_nsec,
                                    .mode = st->st_mode,
                                    .uid = st->st_uid,
                                    .gid = st->st_gid,
                                    .nlink = 1};
}

/* The attributes of a file that nobody can write any more: the kernel grants a lease on no other.
 * Should somebody open it in that moment, the signal is one that is ignored. */
static bool finished(char *file, struct fan_output_attr *attr)
{
    struct stat st;
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = fan_output_object_open(file, flags, 0);
    if (fd < 0)
        return false;
    bool is = fan_sys_fcntl(fd, F_SETSIG, SIGURG) == 0 &&
              fan_sys_fcntl(fd, F_SETLEASE, F_RDLCK) == 0 && FAN_SYS(fstat, fd, &st) == 0;
    fan_sys_close(fd);
    if (is)
        *attr = fan_output_attr_of(&st);
    return is;
}

int fan_own_settle(uint64_t object)
{
    char file[FAN_OUTPUT_PATH_MAX];
    struct fan_wish wish = {.change = {.kind = FAN_CHANGE_PUBLISHED, .object = object}};
    struct fan_turn turn;
    if (!fan_output_object_path(object, file) || !fan_turn_begin(&turn, &wish))
        return FAN_NAMES_ASK;
    bool is = finished(file, &wish.change.attr);
    return fan_turn_end(&turn, &wish, is ? fan_turn_make(&turn, &wish) : FAN_NAMES_ASK);
}

/* An object that has no name any more frees its room before the call returns. */
static void discard(uint64_t object)
{
    char file[FAN_OUTPUT_PATH_MAX];
    struct stat st;
    if (object != 0 && fan_output_object_path(object, file) &&
        FAN_SYS(newfstatat, AT_FDCWD, file, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_size < SLOW_UNLINK_BYTES)
        FAN_SYS(unlinkat, AT_FDCWD, file, 0);
}

static struct fan_output_attr directory_attr(unsigned mode)
{
    return (struct fan_output_attr){.size = DIRECTORY_BYTES,
                                    .blocks = DIRECTORY_BYTES / BLOCK_BYTES,
                                    .mode = S_IFDIR | (mode & 01777),
                                    .uid = (uint32_t)FAN_SYS(geteuid),
                                    .gid = (uint32_t)FAN_SYS(getegid),
                                    .nlink = 2};
}

int fan_own_change(const struct fan_target *target, enum fan_output_op op, unsigned mode)
{
    struct fan_wish wish = {.directory = op == FAN_OUTPUT_RMDIR};
    bool slash, known = op == FAN_OUTPUT_MKDIR || op == FAN_OUTPUT_UNLINK || op == FAN_OUTPUT_RMDIR;
    if (!known || !path_of(target, &wish.path, &slash) || (slash && op == FAN_OUTPUT_UNLINK))
        return FAN_NAMES_ASK;
    wish.change.kind = op == FAN_OUTPUT_MKDIR ? FAN_CHANGE_MADE : FAN_CHANGE_REMOVED;
    if (op == FAN_OUTPUT_MKDIR)
        wish.change.attr = directory_attr(mode);
    int rc = fan_turn(&wish);
    if (rc == 0)
        discard(wish.change.gone);
    return rc;
}

int fan_own_rename(const struct fan_target *from, const struct fan_target *to, unsigned flags)
{
    struct fan_wish wish = {.change.kind = FAN_CHANGE_MOVED, .replace = flags == 0};
    if ((flags & ~(unsigned)RENAME_NOREPLACE) || !fan_own_path(from, &wish.path) ||
        !fan_own_path(to, &wish.other))
        return FAN_NAMES_ASK;
    int rc = fan_turn(&wish);
    if (rc == 0)
        discard(wish.change.gone);
    return rc;
}
