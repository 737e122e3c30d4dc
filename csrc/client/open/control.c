#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../content/content_io.h"
#include "../machine/copy.h"

enum {
    KERNEL_O_LARGEFILE = 0100000, /* what F_GETFL shows for each file of a 64-bit process */
    BLOCK_BYTES = 4096,
};

static int64_t lock_base(struct fan_file *file, int whence)
{
    return whence == SEEK_SET   ? 0
           : whence == SEEK_CUR ? fan_content_offset(file)
           : whence == SEEK_END ? (int64_t)file->record->logical_size
                                : -1;
}

static int check_range(struct fan_file *file, const struct flock *lock)
{
    int64_t start = lock_base(file, lock->l_whence), end;
    if (start < 0)
        return -EINVAL;
    if (__builtin_add_overflow(start, lock->l_start, &start))
        return -EOVERFLOW;
    if (start < 0)
        return -EINVAL;
    if (__builtin_add_overflow(start, lock->l_len, &end))
        return -EOVERFLOW;
    return end < 0 ? -EINVAL : 0;
}

/* Answers the commands that lock a file which nobody can write: readers never exclude each other,
 * and a write lock needs a descriptor that is open for writing. */
static long lock_command(struct fan_file *file, int command, void *argument)
{
    struct flock lock;
    bool ask = command == F_GETLK || command == F_OFD_GETLK;
    bool open = command == F_OFD_GETLK || command == F_OFD_SETLK || command == F_OFD_SETLKW;
    int rc = fan_copy(&lock, argument, sizeof(lock));
    if (rc != 0)
        return rc;
    bool none = lock.l_type == F_UNLCK;
    if ((lock.l_type != F_RDLCK && lock.l_type != F_WRLCK && !none) ||
        (command == F_GETLK && none))
        return -EINVAL;
    rc = check_range(file, &lock);
    if (rc != 0)
        return rc;
    if (open && lock.l_pid != 0)
        return -EINVAL;
    if (!ask)
        return lock.l_type == F_WRLCK ? -EBADF : 0;
    lock.l_type = F_UNLCK;
    return fan_copy(argument, &lock, sizeof(lock));
}

static long set_status(struct fan_file *file, unsigned flags)
{
    const unsigned changeable = O_APPEND | O_NONBLOCK | O_NOATIME;
    unsigned now = atomic_load(&file->slot->status);
    atomic_store(&file->slot->status, (now & ~changeable) | (flags & changeable));
    return 0;
}

long fan_control(int fd, struct fan_file *file, int command, long argument)
{
    switch (command) {
    case F_GETFD:
    case F_SETFD:
        return fan_sys_fcntl(fd, command, argument);
    case F_GETFL:
        return (long)(atomic_load(&file->slot->status) | KERNEL_O_LARGEFILE);
    case F_SETFL:
        return set_status(file, (unsigned)argument);
    case F_GETLK:
    case F_SETLK:
    case F_SETLKW:
    case F_OFD_GETLK:
    case F_OFD_SETLK:
    case F_OFD_SETLKW:
        return lock_command(file, command, (void *)argument);
    case F_GETLEASE:
        return F_UNLCK;
    case F_SETLEASE:
        return argument == F_UNLCK ? -EAGAIN : -EINVAL;
    default:
        return -EINVAL;
    }
}

long fan_copy_status(int fd, const struct fan_file *file)
{
    long flags = fan_sys_fcntl(fd, F_GETFL, 0);
    return flags < 0 ? flags : flags | (atomic_load(&file->slot->status) & (O_NOFOLLOW | O_DIRECT));
}

static long give_number(void *argument, int number)
{
    return fan_copy(argument, &number, sizeof(number));
}

/* Does FIONBIO and FIOASYNC. The latter fails, because an ordinary file sends no signals. */
static long switch_mode(struct fan_file *file, unsigned long request, const void *argument)
{
    int on;
    int rc = fan_copy(&on, argument, sizeof(on));
    if (rc != 0 || request == FIOASYNC)
        return rc != 0 ? rc : on ? -ENOTTY : 0;
    unsigned now = atomic_load(&file->slot->status);
    return set_status(file, on ? now | O_NONBLOCK : now & ~(unsigned)O_NONBLOCK);
}

long fan_device_control(int fd, struct fan_file *file, unsigned long request, void *argument)
{
    switch (request) {
    case FIONREAD:
        return give_number(argument, (int)((int64_t)file->record->logical_size -
                                           fan_content_offset(file)));
    case FIGETBSZ:
        return give_number(argument, BLOCK_BYTES);
    case FIOCLEX:
        return fan_sys_fcntl(fd, F_SETFD, FD_CLOEXEC);
    case FIONCLEX:
        return fan_sys_fcntl(fd, F_SETFD, 0);
    case FIONBIO:
    case FIOASYNC:
        return switch_mode(file, request, argument);
    case FICLONE:
    case FICLONERANGE:
        return -EBADF; /* not open for writing */
    default:
        return -ENOTTY;
    }
}
