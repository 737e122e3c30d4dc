#include "own.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../changes/change.h"
#include "../../common/sys.h"
#include "../job/job.h"
#include "../job/known.h"
#include "../machine/vfork.h"

enum {
    BLOCK_BYTES = 512,
    DIRECTORY_BYTES = 4096,
    SLOW_UNLINK_BYTES = 64 << 20 /* the daemon removes these, which takes long */
};

/* A change that is about to be made, and the signals that were blocked before. */
struct turn {
    struct fan_changer changer;
    uint64_t signals;
};

/* Whether the daemon sees this process under the id that it has itself. */
static bool same_pid_space(const struct fan_names *names, uint32_t pid)
{
    static atomic_uint known;
    struct stat st;
    if (atomic_load(&known) == pid)
        return true;
    if (FAN_SYS(newfstatat, AT_FDCWD, "/proc/self/ns/pid", &st, 0) != 0 ||
        st.st_ino != names->header->pid_space)
        return false;
    atomic_store(&known, pid);
    return true;
}

static bool begin(struct turn *turn)
{
    struct fan_changer *changer = &turn->changer;
    if (fan_output_behalf != 0 || fan_in_vfork_child() || !fan_job_names(&changer->names))
        return false;
    changer->pid = (uint32_t)FAN_SYS(getpid);
    changer->thread = (uint32_t)FAN_SYS(gettid);
    changer->wake = false;
    if (changer->names.header->closed == FAN_NAMES_NEVER ||
        !same_pid_space(&changer->names, changer->pid))
        return false;
    uint64_t all = ~UINT64_C(0);
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &all, &turn->signals, sizeof(all));
    return true;
}

/* Writes to the pipe on which the daemon sleeps; it reads all that is there at once. */
static void wake(void)
{
    int job = fan_sys_openat(AT_FDCWD, fan_job.directory.text, O_PATH | O_CLOEXEC, 0);
    int pipe = job < 0 ? job : fan_sys_openat(job, "changes", O_WRONLY | O_NONBLOCK | O_CLOEXEC, 0);
    if (pipe >= 0) {
        FAN_SYS(write, pipe, "", 1);
        fan_sys_close(pipe);
    }
    if (job >= 0)
        fan_sys_close(job);
}

static int end(const struct turn *turn, int rc)
{
    if (turn->changer.wake)
        wake();
    FAN_SYS(rt_sigprocmask, SIG_SETMASK, &turn->signals, NULL, sizeof(turn->signals));
    return rc;
}

static bool name_of(const struct fan_target *target, struct fan_names_path *path)
{
    bool slash;
    return target->where == FAN_BEYOND &&
           fan_output_path(target->view, target->path, target->base_bytes, path, &slash) && !slash;
}

int fan_own_create(const struct fan_target *target, int flags, unsigned mode,
                   struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX])
{
    const int others = O_PATH | O_DIRECTORY | (O_TMPFILE & ~O_DIRECTORY);
    struct fan_names_path path;
    struct turn turn;
    if ((flags & others) || !(flags & O_CREAT) || (flags & O_ACCMODE) == O_RDONLY ||
        !name_of(target, &path) || !begin(&turn))
        return FAN_NAMES_ASK;
    *answer = (struct fan_output_answer){.where = FAN_OUTPUT_CREATE};
    answer->attr.mode = S_IFREG | (mode & 07777);
    answer->attr.uid = (uint32_t)FAN_SYS(geteuid);
    answer->attr.gid = (uint32_t)FAN_SYS(getegid);
    int rc = end(&turn, fan_change_create(&turn.changer, &path, &answer->attr));
    /* It is this rank's own, so its path is known; but for its length. */
    if (rc == 0 && !fan_output_object_path(answer->attr.object, text))
        text[0] = '\0';
    return rc;
}

static struct fan_output_attr attr_of(const struct stat *st)
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
static bool finished(const char *file, struct fan_output_attr *attr)
{
    struct stat st;
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = fan_sys_openat(AT_FDCWD, file, flags, 0);
    if (fd < 0)
        return false;
    bool is = fan_sys_fcntl(fd, F_SETSIG, SIGURG) == 0 &&
              fan_sys_fcntl(fd, F_SETLEASE, F_RDLCK) == 0 &&
              fan_sys_fcntl(fd, F_SETLEASE, F_UNLCK) == 0 && FAN_SYS(fstat, fd, &st) == 0;
    fan_sys_close(fd);
    if (is)
        *attr = attr_of(&st);
    return is;
}

int fan_own_settle(uint64_t object)
{
    char file[FAN_OUTPUT_PATH_MAX];
    struct fan_output_attr attr;
    struct turn turn;
    if (!fan_output_object_path(object, file) || !begin(&turn))
        return FAN_NAMES_ASK;
    if (!finished(file, &attr))
        return end(&turn, FAN_NAMES_ASK);
    return end(&turn, fan_change_publish(&turn.changer, object, &attr));
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
    struct fan_names_path path;
    struct turn turn;
    uint64_t gone = 0;
    bool known = op == FAN_OUTPUT_MKDIR || op == FAN_OUTPUT_UNLINK || op == FAN_OUTPUT_RMDIR;
    if (!known || !name_of(target, &path) || !begin(&turn))
        return FAN_NAMES_ASK;
    if (op == FAN_OUTPUT_MKDIR) {
        struct fan_output_attr attr = directory_attr(mode);
        return end(&turn, fan_change_make(&turn.changer, &path, &attr));
    }
    int rc = fan_change_remove(&turn.changer, &path, op == FAN_OUTPUT_RMDIR, &gone);
    if (rc == 0)
        discard(gone);
    return end(&turn, rc);
}

int fan_own_rename(const struct fan_target *from, const struct fan_target *to, unsigned flags)
{
    struct fan_names_path old, new;
    struct turn turn;
    uint64_t gone = 0;
    if ((flags & ~(unsigned)RENAME_NOREPLACE) || !name_of(from, &old) || !name_of(to, &new) ||
        !begin(&turn))
        return FAN_NAMES_ASK;
    int rc = fan_change_move(&turn.changer, &old, &new, flags == 0, &gone);
    if (rc == 0)
        discard(gone);
    return end(&turn, rc);
}
