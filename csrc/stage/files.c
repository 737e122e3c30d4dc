#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIECE_BYTES (256 << 10)
#define NS_A_SECOND 1000000000LL

/* File systems (types of statfs(2)) that syncfs(2) writes completely to disk: ext2 to ext4, XFS,
 * Btrfs, F2FS, tmpfs. For network file systems this depends on the file server. */
static const uint32_t SYNCED_WHOLE[] = {0xEF53, 0x58465342, 0x9123683E, 0xF2F52010, 0x01021994};

static const char *next(const char *path)
{
    return path + strlen(path) + 1;
}

static struct timespec time_of(int64_t ns)
{
    int64_t second = ns / NS_A_SECOND - (ns % NS_A_SECOND < 0);
    return (struct timespec){second, ns - second * NS_A_SECOND};
}

/* Reads a flag that another thread sets. */
static bool is_set(const int32_t *flag)
{
    return __atomic_load_n(flag, __ATOMIC_RELAXED) != 0;
}

/* Opens a file without waiting for a lease; does not change its access time if the file is this
 * user's. */
static int open_file(const char *path)
{
    int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    int fd = open(path, flags | O_NOATIME);
    return fd < 0 && errno == EPERM ? open(path, flags) : fd;
}

/* Copies bytes to the same offsets of another file with read and write. Returns 0 or an errno. */
static int copy_by_hand(int from, int to, off_t at, off_t end)
{
    char piece[PIECE_BYTES];
    while (at < end) {
        size_t most = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        ssize_t count = pread(from, piece, most, at);
        if (count <= 0)
            return count < 0 ? errno : EIO;
        for (ssize_t done = 0; done < count;) {
            ssize_t written = pwrite(to, piece + done, (size_t)(count - done), at + done);
            if (written < 0)
                return errno;
            done += written;
        }
        at += count;
    }
    return 0;
}

/* Copies in the kernel; if that fails for any reason, copies with read and write, or returns why
 * that failed. */
int64_t fan_copy_piece(int32_t from, int32_t to, int64_t at, int64_t end)
{
    off_t in = at, out = at;
    ssize_t count = copy_file_range(from, &in, to, &out, (size_t)(end - at), 0);
    if (count > 0)
        return count;
    int error = copy_by_hand(from, to, at, end);
    return error != 0 ? -error : end - at;
}

static int copy_bytes(int from, int to)
{
    struct stat st;
    if (fstat(from, &st) != 0)
        return errno;
    if (st.st_blocks * 512 < st.st_size)
        return EOPNOTSUPP;
    return copy_by_hand(from, to, 0, st.st_size);
}

/* Sets the attributes of a copy. Sets the owner only if this user may. */
static int set_attributes(int fd, const struct fan_file_copy *copy)
{
    struct timespec times[] = {time_of(copy->atime_ns), time_of(copy->mtime_ns)};
    if (fchown(fd, copy->uid, copy->gid) != 0 && errno != EPERM)
        return errno;
    return fchmod(fd, copy->mode & 07777) != 0 || futimens(fd, times) != 0 ? errno : 0;
}

static int copy_file(int from, const char *to, struct fan_file_copy *copy)
{
    int fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = copy_bytes(from, fd);
    if (error == 0)
        error = set_attributes(fd, copy);
    if (error == 0) {
        copy->fd = fd;
        return 0;
    }
    unlink(to);
    close(fd);
    return error;
}

/* Gives the file itself a second name, instead of copying it. */
static int link_file(int from, const char *path, const char *to, struct fan_file_copy *copy)
{
    if (link(path, to) != 0)
        return errno;
    copy->fd = from;
    return 0;
}

static int bring_file(const char *path, const char *to, bool by_link, struct fan_file_copy *copy)
{
    int from = open_file(path);
    if (from < 0)
        return errno;
    int error = by_link ? link_file(from, path, to, copy) : copy_file(from, to, copy);
    if (copy->fd != from)
        close(from);
    return error;
}

void fan_copy_files(const char *paths, uint64_t count, struct fan_file_copy *copies, bool by_link,
                    const int32_t *ended)
{
    for (uint64_t i = 0; i < count; i++) {
        const char *to = next(paths);
        copies[i].fd = -1;
        copies[i].error = is_set(ended) ? ECANCELED : bring_file(paths, to, by_link, &copies[i]);
        paths = next(to);
    }
}

static bool is_synced_whole(int fd)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return false;
    for (size_t i = 0; i < sizeof(SYNCED_WHOLE) / sizeof(*SYNCED_WHOLE); i++)
        if ((uint32_t)fs.f_type == SYNCED_WHOLE[i])
            return true;
    return false;
}

int fan_sync_whole(const int32_t *fds, uint64_t count, int32_t *errors)
{
    if (!is_synced_whole(fds[0]) || syncfs(fds[0]) != 0)
        return 0;
    /* Waits for each file's bytes: syncfs does not say which file could not be written, and before
     * Linux 5.8 does not report such errors. */
    for (uint64_t i = 0; i < count; i++)
        errors[i] = sync_file_range(fds[i], 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE) != 0 ? errno : 0;
    return 1;
}

void fan_close_all(const int32_t *fds, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        close(fds[i]);
}

static bool is_unsupported(int error)
{
    return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP || error == EPERM;
}

/* If the file system does not know RENAME_NOREPLACE, makes a hard link, which does not replace a
 * file either. If links fail too, as for directories, another process may take the name between the
 * check and the rename. */
int fan_rename_to_free(const char *from, const char *to)
{
    struct stat st;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (!is_unsupported(errno))
        return errno;
    if (link(from, to) == 0)
        return unlink(from) == 0 ? 0 : errno;
    if (errno == EEXIST || lstat(to, &st) == 0)
        return EEXIST;
    return rename(from, to) == 0 ? 0 : errno;
}

int fan_exchange_names(const char *one, const char *other)
{
    if (renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE) == 0)
        return 0;
    return is_unsupported(errno) ? EOPNOTSUPP : errno;
}

int fan_reserve(int32_t fd, int64_t start, int64_t bytes)
{
    return fallocate(fd, FALLOC_FL_KEEP_SIZE, start, bytes) == 0 ? 0 : errno;
}

uint64_t fan_name_files(const char *paths, uint64_t count, struct fan_identity *identities,
                        const int32_t *ended, int32_t *error)
{
    *error = 0;
    for (uint64_t i = 0; i < count; i++) {
        const char *to = next(paths);
        struct stat st;
        if (is_set(ended))
            return i;
        *error = lstat(paths, &st) != 0 ? errno : fan_rename_to_free(paths, to);
        if (*error != 0)
            return i;
        identities[i] = (struct fan_identity){st.st_ino, (uint64_t)st.st_size,
                                              st.st_mtim.tv_sec * NS_A_SECOND + st.st_mtim.tv_nsec};
        paths = next(to);
    }
    return count;
}

void fan_count_up(uint64_t *count)
{
    __atomic_fetch_add(count, 1, __ATOMIC_SEQ_CST);
}

int64_t fan_birth_ns(const char *path)
{
    struct statx found;
    int rc = statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_BTIME, &found);
    if (rc != 0 || !(found.stx_mask & STATX_BTIME))
        return -1;
    return (int64_t)found.stx_btime.tv_sec * 1000000000 + found.stx_btime.tv_nsec;
}

uint32_t fan_writer_of(const struct fan_outputs *outputs, uint64_t inode)
{
    for (unsigned i = 0; i < FAN_WRITERS; i++) {
        const struct fan_writer *writer = &outputs->writers[i];
        uint32_t process = __atomic_load_n(&writer->process, __ATOMIC_ACQUIRE);
        if (process != 0 && __atomic_load_n(&writer->inode, __ATOMIC_ACQUIRE) == inode)
            return process;
    }
    return 0;
}
