/* Reading through a descriptor: read, seek, map, and the calls that copy between descriptors. */
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../client/content/content_io.h"
#include "../../client/open/dirstream.h"
#include "../../client/paths/output_tree.h"
#include "../../client/files/filetable.h"
#include "../../client/content/mapping.h"
#include "../../common/sys.h"
#include "../cancel.h"
#include "../real.h"
#include "of_file.h"

/* Makes a read of `file` a cancellation point, and returns its result. */
#define READING(call)                                                                              \
    do {                                                                                           \
        bool held = fan_cancel_begin();                                                            \
        ssize_t got = call;                                                                        \
        fan_cancel_end(held);                                                                      \
        return fan_answer(got);                                                                    \
    } while (0)

FAN_EXPORT ssize_t read(int fd, void *buffer, size_t bytes)
{
    struct fan_file *file = fan_regular(fd);
    if (file == NULL)
        return REAL(read)(fd, buffer, bytes);
    READING(fan_content_read(file, buffer, bytes));
}

FAN_EXPORT ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)
{
    struct fan_file *file = fan_regular(fd);
    if (file == NULL)
        return REAL(pread)(fd, buffer, bytes, offset);
    READING(fan_content_pread(file, buffer, bytes, offset));
}

FAN_EXPORT ssize_t readv(int fd, const struct iovec *vector, int count)
{
    struct fan_file *file = fan_regular(fd);
    if (file == NULL)
        return REAL(readv)(fd, vector, count);
    READING(fan_content_readv(file, vector, count));
}

FAN_EXPORT ssize_t preadv(int fd, const struct iovec *vector, int count, off_t offset)
{
    struct fan_file *file = fan_regular(fd);
    if (file == NULL)
        return REAL(preadv)(fd, vector, count, offset);
    READING(fan_content_preadv(file, vector, count, offset));
}

FAN_EXPORT ssize_t preadv2(int fd, const struct iovec *vector, int count, off_t offset, int flags)
{
    struct fan_file *file = fan_regular(fd);
    if (file == NULL)
        return REAL(preadv2)(fd, vector, count, offset, flags);
    if (flags & ~(RWF_HIPRI | RWF_NOWAIT | RWF_DSYNC | RWF_SYNC | RWF_APPEND))
        return fan_answer(-EOPNOTSUPP);
    READING(offset == -1 ? fan_content_readv(file, vector, count)
                         : fan_content_preadv(file, vector, count, offset));
}

FAN_EXPORT off_t lseek(int fd, off_t offset, int whence)
{
    struct fan_file *file = fan_file_get(fd);
    if (file == NULL)
        return REAL(lseek)(fd, offset, whence);
    if (file->kind == FAN_FILE_REGULAR)
        return fan_answer(fan_content_seek(file, offset, whence));
    bool listed = fan_file_is_directory(file) && !fan_directory_is_path(file);
    if (listed && whence == SEEK_SET && offset >= 0) {
        atomic_store(&file->slot->offset, offset);
        return offset;
    }
    if (listed && whence == SEEK_CUR && offset == 0)
        return atomic_load(&file->slot->offset);
    return REAL(lseek)(fd, offset, whence);
}

static __attribute__((noinline)) void *map_ours(void *at, size_t bytes, int prot, int flags,
                                                struct fan_file *file, off_t offset)
{
    bool path = file->kind == FAN_FILE_DIRECTORY && fan_directory_is_path(file);
    long got = path ? -EBADF : fan_mmap(file, at, bytes, prot, flags, offset);
    if (fan_sys_failed(got)) {
        errno = (int)-got;
        return MAP_FAILED;
    }
    return (void *)got;
}

FAN_EXPORT void *mmap(void *at, size_t bytes, int prot, int flags, int fd, off_t offset)
{
    struct fan_file *file = flags & MAP_ANONYMOUS ? NULL : fan_file_get(fd);
    bool ours = file != NULL && file->record != NULL && file->kind != FAN_FILE_COPY;
    return ours ? map_ours(at, bytes, prot, flags, file, offset)
                : REAL(mmap)(at, bytes, prot, flags, fd, offset);
}

/* The kernel itself moves mappings and drops pages. */
FAN_EXPORT void *mremap(void *old, size_t old_bytes, size_t bytes, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    if (!fan_mapped_grows(old, old_bytes, bytes))
        return REAL(mremap)(old, old_bytes, bytes, flags, to);
    errno = ENOMEM;
    return MAP_FAILED;
}

FAN_EXPORT int remap_file_pages(void *at, size_t bytes, int prot, size_t page, int flags)
{
    return fan_mapped_at(at) ? (int)fan_answer(-EINVAL)
                             : REAL(remap_file_pages)(at, bytes, prot, page, flags);
}

/* Finds the next piece: in the mapped pack, or by reading it to `room`. */
static ssize_t next_piece(struct fan_file *file, int64_t at, size_t bytes, char *room, size_t size,
                          const char **piece)
{
    int64_t left = (int64_t)file->record->logical_size - at;
    if (left <= 0)
        return 0;
    if (file->data == NULL || file->record->codec != 0) {
        *piece = room;
        return fan_content_pread(file, room, bytes < size ? bytes : size, at);
    }
    *piece = file->data + at;
    size_t most = bytes < (1 << 30) ? bytes : 1 << 30;
    return (uint64_t)left < most ? left : (ssize_t)most;
}

/* Returns the result of writing a piece from the mapped pack. If the pack could not be read, the
 * kernel reports a bad address. */
static long count_piece(long put)
{
    const long answer = put == -EFAULT ? -EIO : put;
    return answer > 0 || answer == -EIO ? fan_content_counted(answer) : answer;
}

/* Copies up to `bytes` from a file of ours to a descriptor of the kernel's, one piece at a time.
 * `offset`: as in sendfile(2); NULL uses the shared one. */
static ssize_t pour(int out, off_t *out_offset, struct fan_file *file, off_t *offset, size_t bytes)
{
    char room[4096];
    const char *piece = room;
    size_t done = 0;
    int64_t start = offset != NULL ? *offset : fan_content_offset(file);
    if (start < 0)
        return -EINVAL;
    while (done < bytes) {
        ssize_t got = next_piece(file, start + (int64_t)done, bytes - done, room, sizeof(room),
                                 &piece);
        if (got <= 0) {
            if (got < 0 && done == 0)
                return got;
            break;
        }
        long put = out_offset != NULL
                       ? FAN_SYS(pwrite64, out, piece, got, *out_offset + (int64_t)done)
                       : FAN_SYS(write, out, piece, got);
        if (piece != room)
            put = count_piece(put);
        if (put < 0 && done == 0)
            return put;
        done += put > 0 ? (size_t)put : 0;
        if (put < got)
            break;
    }
    if (offset != NULL)
        *offset += (off_t)done;
    else
        fan_content_seek(file, start + (int64_t)done, SEEK_SET);
    if (out_offset != NULL)
        *out_offset += (off_t)done;
    return (ssize_t)done;
}

FAN_EXPORT ssize_t sendfile(int out, int in, off_t *offset, size_t bytes)
{
    struct fan_file *file = fan_regular(in);
    return file != NULL ? fan_answer(pour(out, NULL, file, offset, bytes))
                        : REAL(sendfile)(out, in, offset, bytes);
}

FAN_EXPORT ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset,
                                   size_t bytes, unsigned flags)
{
    struct fan_file *file = fan_regular(in);
    if (file == NULL)
        return REAL(copy_file_range)(in, in_offset, out, out_offset, bytes, flags);
    fan_cancel_point();
    return fan_answer(flags != 0 ? -EINVAL : pour(out, out_offset, file, in_offset, bytes));
}

FAN_EXPORT ssize_t splice(int in, off64_t *in_offset, int out, off64_t *out_offset, size_t bytes,
                          unsigned flags)
{
    struct fan_file *file = fan_regular(in);
    if (file == NULL)
        return REAL(splice)(in, in_offset, out, out_offset, bytes, flags);
    fan_cancel_point();
    if (flags & ~(unsigned)(SPLICE_F_MOVE | SPLICE_F_NONBLOCK | SPLICE_F_MORE | SPLICE_F_GIFT))
        return fan_answer(-EINVAL);
    if (out_offset != NULL)
        return fan_answer(-ESPIPE);
    /* Does not wait for room in a pipe that holds something already, because this thread may be its
     * reader. */
    const size_t page = 4096;
    size_t done = 0;
    const struct timespec none = {0};
    struct pollfd room = {.fd = out, .events = POLLOUT};
    while (done < bytes &&
           (done == 0 || FAN_SYS(ppoll, &room, 1, &none, NULL, sizeof(uint64_t)) == 1)) {
        size_t piece = bytes - done < page ? bytes - done : page;
        ssize_t moved = pour(out, NULL, file, in_offset, piece);
        if (moved < 0 && done == 0)
            return fan_answer(moved);
        if (moved <= 0)
            break;
        done += (size_t)moved;
    }
    return (ssize_t)done;
}

/* Sets the inode numbers in entries of a directory of the output tree to those that stat(2)
 * shows. */
static void show_entries(int fd, char *buffer, long bytes)
{
    for (long at = 0; at < bytes;) {
        struct dirent64 *entry = (void *)(buffer + at);
        entry->d_ino = fan_shown_inode(fd, entry->d_name, entry->d_ino);
        entry->d_type = fan_tree_shown_type(entry->d_type);
        at += entry->d_reclen;
    }
}

FAN_EXPORT ssize_t getdents64(int fd, void *buffer, size_t bytes)
{
    struct fan_file *file = fan_file_get(fd);
    if (file != NULL && fan_file_is_directory(file) && !fan_directory_is_path(file))
        return fan_answer(fan_getdents(fd, file, buffer, bytes));
    if (file != NULL && file->kind == FAN_FILE_REGULAR)
        return fan_answer(-ENOTDIR);
    long got = FAN_SYS(getdents64, fd, buffer, bytes);
    if (got > 0 && file != NULL && file->kind == FAN_FILE_OUTPUT)
        show_entries(fd, buffer, got);
    return fan_answer(got);
}

/* Calls getdents64(2), and stores where it began. */
FAN_EXPORT ssize_t getdirentries(int fd, char *buffer, size_t bytes, off_t *base)
{
    off_t start = lseek(fd, 0, SEEK_CUR);
    ssize_t got = start < 0 ? -1 : getdents64(fd, buffer, bytes);
    if (got >= 0)
        *base = start;
    return got;
}
