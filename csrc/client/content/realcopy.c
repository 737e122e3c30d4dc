#include "realcopy.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "../../common/descriptor.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../../format/pack_format.h"
#include "../files/filetable.h"
#include "../job/fresh.h"
#include "../machine/limits.h"
#include "content_io.h"
#include "copyname.h"
#include "mapping.h"

/* The size of several blocks, so that remote ones are fetched in parallel. */
enum { PIECE_BYTES = 4 << 20 };

/* Uses write(2) and not a mapping, so that a page that cannot be allocated is an error and not
 * SIGBUS. */
static int write_all(int to, const char *piece, uint64_t bytes)
{
    while (bytes > 0) {
        long put = FAN_SYS(write, to, piece, bytes);
        if (put == -EINTR)
            continue;
        if (put <= 0) /* -EFAULT: the disk cannot read a page of the pack */
            return put == -ENOSPC || put == -EDQUOT || put == -ENOMEM ? (int)put : -EIO;
        piece += put;
        bytes -= (uint64_t)put;
    }
    return 0;
}

/* Writes content that is not in memory in its final form, in pieces that end where blocks do. */
static int write_pieces(int to, struct fan_file *from, uint64_t offset, uint64_t bytes)
{
    const uint64_t end = offset + bytes, room = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    char *piece = fan_sys_memory(room);
    int rc = piece == NULL ? -ENOMEM : 0;
    while (rc == 0 && offset < end) {
        uint64_t step = PIECE_BYTES - offset % PIECE_BYTES;
        step = step < room ? step : room;
        step = step < end - offset ? step : end - offset;
        ssize_t got = fan_content_pread(from, piece, step, (int64_t)offset);
        rc = got > 0 ? write_all(to, piece, (uint64_t)got) : got < 0 ? (int)got : -EIO;
        offset += got > 0 ? (uint64_t)got : 0;
    }
    if (piece != NULL)
        fan_sys_munmap(piece, room);
    return rc;
}

/* Releases pages of a mapped pack that were read for a copy. They stay in the page cache, but would
 * count as memory of this process. */
static void release(const char *from, uint64_t bytes)
{
    uintptr_t start = (uintptr_t)from & ~(uintptr_t)(FAN_MAP_ALIGN_BYTES - 1);
    FAN_SYS(madvise, start, (uintptr_t)from + bytes - start, MADV_DONTNEED);
}

static int write_mapped(int to, const char *data, uint64_t bytes)
{
    int rc = 0;
    for (uint64_t done = 0; rc == 0 && done < bytes; done += PIECE_BYTES) {
        uint64_t step = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        rc = write_all(to, data + done, step);
        release(data + done, step);
    }
    return rc;
}

/* Writes `bytes` of `from`, from `offset` on, to the new, empty file `to`. Returns 0 or -errno. */
static int fill(int to, struct fan_file *from, uint64_t offset, uint64_t bytes)
{
    unsigned generation = atomic_load(&from->generation);
    const char *data = from->record->codec == FAN_CODEC_STORE ? from->data : NULL;
    if (bytes == 0)
        return 0;
    if (!fan_file_limit_allows(bytes))
        return -EFBIG;
    if (data == NULL)
        return write_pieces(to, from, offset, bytes);
    int rc = write_mapped(to, data + offset, bytes);
    ssize_t got = fan_content_unless_closed(from, generation, rc == 0 ? (ssize_t)bytes : rc);
    return got < 0 ? (int)got : 0;
}

/* Fills `to` and returns it. On failure, closes it and returns -errno. */
static int filled(int to, struct fan_file *from, uint64_t offset, uint64_t bytes)
{
    int rc = to >= 0 ? fill(to, from, offset, bytes) : 0;
    if (rc != 0)
        fan_sys_close(to);
    return rc != 0 ? rc : to;
}

static int make_memory_file(const char *name)
{
    return (int)FAN_SYS(memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/* Makes a new file in the job's directory and removes its name, which only /proc still shows. */
static int make_disk_file(const char *name)
{
    FAN_OFF_STACK(struct fan_path, path);
    int fd = path == NULL ? -ENOMEM : -EEXIST;
    while (fd == -EEXIST) {
        fd = fan_fresh_path(name, path->text, sizeof(path->text));
        if (fd == 0)
            fd = fan_sys_openat(AT_FDCWD, path->text, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    }
    if (fd >= 0)
        FAN_SYS(unlinkat, AT_FDCWD, path->text, 0);
    return fd;
}

static void put_name(const struct fan_file *file, char name[FAN_COPY_NAME_BYTES])
{
    const struct fan_copy_name copy = {file->view, file->id, atomic_load(&file->slot->status)};
    fan_copy_name_put(&copy, name);
}

/* Makes sure that no process changes a memory file from now on. A file on a disk has no seals. */
static void seal(int fd)
{
    fan_sys_fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
}

/* Returns a copy, open for writing, and sealed if it is in memory; -errno on failure. */
static int make_copy(struct fan_file *file, uint64_t memory_max)
{
    const uint64_t size = file->record->logical_size;
    char name[FAN_COPY_NAME_BYTES];
    put_name(file, name);
    int to = size <= memory_max ? make_memory_file(name) : make_disk_file(name);
    to = filled(to, file, 0, size);
    if (to >= 0)
        seal(to);
    return to;
}

/* Opens the file `to` again, as another open file description, and closes `to`. */
static int opened_anew(int to, int flags)
{
    int copy = to >= 0 ? fan_fd_reopen(to, flags) : to;
    if (to >= 0)
        fan_sys_close(to);
    return copy;
}

int fan_real_open(struct fan_file *file, int flags, uint64_t memory_max)
{
    return opened_anew(make_copy(file, memory_max), flags);
}

int fan_real_copy(struct fan_file *file)
{
    return fan_real_open(file, O_RDONLY, FAN_COPY_IN_MEMORY_BYTES);
}

/* Gives a copy the owner, mode and time of the file. The owner comes first, because changing it
 * drops the set-user-ID bit. Users other than root can only set a group of their own. */
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
    int to = make_copy(file, FAN_COPY_IN_MEMORY_BYTES);
    if (to < 0)
        return to;
    int twin = fan_fd_reopen(to, O_RDONLY | (int)(atomic_load(&file->slot->status) & kept));
    if (twin >= 0)
        dress(to, file);
    fan_sys_close(to);
    return twin;
}

/* Returns an O_PATH descriptor of a symbolic link like one of ours, whose name is removed. */
static int link_like(const struct fan_file *file)
{
    FAN_OFF_STACK(struct fan_path, to);
    char name[FAN_COPY_NAME_BYTES];
    const char *target;
    size_t bytes;
    if (to == NULL)
        return -ENOMEM;
    int rc = fan_index_target(&file->dataset->index, file->record, &target, &bytes);
    if (rc != 0 || bytes >= sizeof(to->text))
        return -EIO;
    memcpy(to->text, target, bytes);
    to->text[bytes] = '\0';
    put_name(file, name);
    return fan_fresh_link(to->text, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

int fan_real_path(struct fan_file *file)
{
    if (S_ISLNK(file->record->mode))
        return link_like(file);
    struct fan_file *own = fan_file_new(file->view, file->id, FAN_FILE_REGULAR,
                                        atomic_load(&file->slot->status));
    if (own == NULL)
        return -ENFILE;
    int rc = fan_content_open(own);
    int to = rc == 0 ? make_copy(own, FAN_COPY_IN_MEMORY_BYTES) : rc;
    fan_file_put(own);
    if (to >= 0)
        dress(to, file);
    return opened_anew(to, O_PATH);
}

int fan_real_name(const struct fan_file *file)
{
    char name[FAN_COPY_NAME_BYTES];
    put_name(file, name);
    int to = make_memory_file(name);
    if (to >= 0)
        seal(to);
    return opened_anew(to, O_WRONLY);
}

int fan_real_part(struct fan_file *file, int64_t offset, size_t bytes)
{
    int fd = filled(make_memory_file(FAN_MAP_COPY), file, (uint64_t)offset, bytes);
    return fd == -ENOSPC ? -ENOMEM : fd;
}

int fan_real_file(struct fan_file *file, const char *path, unsigned mode)
{
    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    int to = fan_sys_openat(AT_FDCWD, path, flags, 0600);
    if (to < 0)
        return to;
    int rc = fill(to, file, 0, file->record->logical_size);
    rc = rc == 0 ? (int)FAN_SYS(fchmod, to, mode) : rc;
    fan_sys_close(to);
    if (rc != 0)
        FAN_SYS(unlinkat, AT_FDCWD, path, 0);
    return rc;
}
