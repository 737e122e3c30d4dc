#include "realcopy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../files/filetable.h"
#include "../machine/spelling.h"
#include "content_io.h"
#include "copyname.h"
#include "fill.h"

enum { IN_MEMORY_BYTES = 256 << 20 };

/* The same file through another description. */
static int reopen(int fd, int flags)
{
    char path[40] = "/proc/self/fd/";
    *fan_put_number(path + strlen(path), (unsigned)fd) = '\0';
    return fan_sys_openat(AT_FDCWD, path, flags | O_CLOEXEC, 0);
}

/* A place in the job's directory, for a moment; a thread of another PID namespace, or one that was
 * killed, may have taken it. */
static int put_place(const char *name, char path[PATH_MAX])
{
    static atomic_uint number;
    const struct fan_text *job = &fan_job.directory;
    if (!fan_join(path, PATH_MAX - 32, job->text, job->bytes, name))
        return -ENAMETOOLONG;
    char *at = path + strlen(path);
    *at++ = '.';
    at = fan_put_number(at, (unsigned)FAN_SYS(gettid));
    *at++ = '.';
    *fan_put_number(at, atomic_fetch_add(&number, 1)) = '\0';
    return 0;
}

/* A new file in memory, or a large one on the local disk, where only /proc shows its name. */
static int make_file(uint64_t size, const char *name)
{
    char path[PATH_MAX];
    if (size <= IN_MEMORY_BYTES)
        return (int)FAN_SYS(memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int fd;
    do {
        int rc = put_place(name, path);
        fd = rc == 0 ? fan_sys_openat(AT_FDCWD, path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700)
                     : rc;
    } while (fd == -EEXIST);
    if (fd >= 0)
        FAN_SYS(unlinkat, AT_FDCWD, path, 0);
    return fd;
}

static void put_name(const struct fan_file *file, char name[FAN_COPY_NAME_BYTES])
{
    const struct fan_copy_name copy = {file->view, file->id, atomic_load(&file->slot->status)};
    fan_copy_name_put(&copy, name);
}

/* A filled copy, open for writing; sealed where it lies in memory. */
static int make_copy(struct fan_file *file)
{
    char name[FAN_COPY_NAME_BYTES];
    put_name(file, name);
    int to = make_file(file->record->logical_size, name);
    int rc = to >= 0 ? fan_fill(to, file, 0, file->record->logical_size) : to;
    if (rc != 0) {
        if (to >= 0)
            fan_sys_close(to);
        return rc;
    }
    fan_sys_fcntl(to, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return to;
}

/* The copy through a description that cannot write; `to` is closed. */
static int reading_only(int to, int flags)
{
    int copy = to >= 0 ? reopen(to, flags) : to;
    if (to >= 0)
        fan_sys_close(to);
    return copy;
}

int fan_real_copy(struct fan_file *file)
{
    return reading_only(make_copy(file), O_RDONLY);
}

/* The owner comes before the mode, whose set-user-ID bit a change of owner drops. Who is not root
 * can give a file to groups of its own alone. */
static void dress(int fd, const struct fan_file *file)
{
    const struct fan_record *record = file->record;
    const struct fan_index *index = &file->dataset->index;
    const struct timespec time = {record->mtime_ns / 1000000000, record->mtime_ns % 1000000000};
    const struct timespec times[2] = {time, time};
    if (record->owner < index->owner_count) {
        const struct fan_owner *owner = &index->owners[record->owner];
        if (FAN_SYS(fchown, fd, owner->uid, owner->gid) != 0)
            FAN_SYS(fchown, fd, -1, owner->gid);
    }
    FAN_SYS(fchmod, fd, record->mode & 07777);
    FAN_SYS(utimensat, fd, NULL, times, 0);
}

int fan_real_twin(struct fan_file *file)
{
    const unsigned kept = O_APPEND | O_NONBLOCK | O_NOATIME | O_SYNC;
    int to = make_copy(file);
    int twin = to >= 0 ? reopen(to, O_RDONLY | (int)(atomic_load(&file->slot->status) & kept)) : to;
    if (to < 0)
        return to;
    if (twin >= 0)
        dress(to, file);
    fan_sys_close(to);
    return twin;
}

/* A link like one of ours, which has no name any more. */
static int link_like(const struct fan_file *file)
{
    struct names {
        char name[FAN_COPY_NAME_BYTES], path[PATH_MAX], to[PATH_MAX];
    };
    FAN_OFF_STACK(struct names, room);
    const char *target;
    size_t bytes;
    if (room == NULL)
        return -ENOMEM;
    int rc = fan_index_target(&file->dataset->index, file->record, &target, &bytes);
    if (rc != 0 || bytes >= sizeof(room->to))
        return -EIO;
    memcpy(room->to, target, bytes);
    room->to[bytes] = '\0';
    put_name(file, room->name);
    do {
        rc = put_place(room->name, room->path);
        rc = rc == 0 ? (int)FAN_SYS(symlinkat, room->to, AT_FDCWD, room->path) : rc;
    } while (rc == -EEXIST);
    if (rc != 0)
        return rc;
    int fd = fan_sys_openat(AT_FDCWD, room->path, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    FAN_SYS(unlinkat, AT_FDCWD, room->path, 0);
    return fd;
}

int fan_real_path(struct fan_file *file)
{
    if (S_ISLNK(file->record->mode))
        return link_like(file);
    struct fan_file *own = fan_file_new(file->view, file->id, FAN_FILE_REGULAR,
                                        atomic_load(&file->slot->status));
    if (own == NULL)
        return -ENFILE;
    int rc = fan_content_open(own), to = rc == 0 ? make_copy(own) : rc;
    fan_file_put(own);
    if (to >= 0)
        dress(to, file);
    return reading_only(to, O_PATH);
}
