#include "entries.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"

/* The most bytes of a path in one call: leaves room for a name below PATH_MAX. */
enum { STEP_BYTES = PATH_MAX - NAME_MAX - 2 };

int fan_scan_keep(struct fan_scan *scan, const char *bytes, size_t n, uint64_t *offset)
{
    int rc = fan_room_grow(&scan->names_room, scan->names_bytes + n);
    if (rc != 0)
        return rc;
    scan->names = scan->names_room.base;
    *offset = scan->names_bytes;
    if (n > 0)
        memcpy(scan->names + scan->names_bytes, bytes, n);
    scan->names_bytes += n;
    return 0;
}

/* Cuts off the longest part at the front of a path that one openat accepts. Returns its length. */
static size_t cut_step(const char *path, size_t bytes)
{
    if (bytes <= STEP_BYTES)
        return bytes;
    const char *slash = memrchr(path, '/', STEP_BYTES);
    return slash != NULL ? (size_t)(slash - path) : bytes;
}

static int open_step(int at, const char *path, size_t bytes, int flags)
{
    char step[PATH_MAX];
    if (bytes >= sizeof(step))
        return -ENAMETOOLONG;
    memcpy(step, path, bytes);
    step[bytes] = '\0';
    int fd = openat(at, bytes > 0 ? step : ".", flags | O_CLOEXEC);
    return fd >= 0 ? fd : -errno;
}

int fan_scan_open(int root_fd, const char *path, uint64_t path_bytes, int flags)
{
    int at = root_fd;
    for (;;) {
        size_t step = cut_step(path, path_bytes);
        bool last = step == path_bytes;
        int fd = open_step(at, path, step, last ? flags : O_PATH | O_DIRECTORY | O_NOFOLLOW);
        if (at != root_fd)
            close(at);
        if (fd < 0 || last)
            return fd;
        at = fd;
        path += step + 1;
        path_bytes -= step + 1;
    }
}

static int64_t to_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Returns whether a time fits into 64 bits of nanoseconds: from 1677 to 2262. */
static bool is_storable(const struct timespec *time)
{
    return time->tv_sec > INT64_MIN / 1000000000 && time->tv_sec < INT64_MAX / 1000000000;
}

void fan_scan_fill(struct fan_scan_entry *entry, const struct stat *st)
{
    entry->size = (uint64_t)st->st_size;
    entry->mtime_ns = to_ns(&st->st_mtim);
    entry->ctime_ns = to_ns(&st->st_ctim);
    entry->dev = st->st_dev;
    entry->ino = st->st_ino;
    entry->mode = st->st_mode;
    entry->uid = st->st_uid;
    entry->gid = st->st_gid;
    entry->nlink = st->st_nlink > UINT32_MAX ? UINT32_MAX : (uint32_t)st->st_nlink;
}

int fan_scan_look(int dir_fd, const char *name, struct fan_scan_entry *entry,
                  char target[FAN_TARGET_MAX_BYTES])
{
    struct stat st;
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0)
        return -errno;
    if (!is_storable(&st.st_mtim) || !is_storable(&st.st_ctim))
        return -EOVERFLOW;
    fan_scan_fill(entry, &st);
    if (!S_ISLNK(st.st_mode))
        return 0;
    ssize_t n = readlinkat(dir_fd, name, target, FAN_TARGET_MAX_BYTES);
    if (n <= 0 || n == FAN_TARGET_MAX_BYTES)
        return n < 0 ? -errno : -ENAMETOOLONG;
    entry->target_bytes = (uint32_t)n;
    return 0;
}

int fan_scan_stat(int root_fd, const char *path, uint64_t path_bytes, struct fan_scan_entry *entry,
                  char *target)
{
    memset(entry, 0, sizeof(*entry));
    const char *slash = path_bytes > 0 ? memrchr(path, '/', path_bytes) : NULL;
    size_t dir_bytes = slash != NULL ? (size_t)(slash - path) : 0;
    const char *base = slash != NULL ? slash + 1 : path;
    size_t base_bytes = path_bytes - (size_t)(base - path);
    char name[NAME_MAX + 1];
    if (base_bytes > NAME_MAX)
        return -ENAMETOOLONG;
    memcpy(name, base_bytes > 0 ? base : ".", base_bytes > 0 ? base_bytes : 1);
    name[base_bytes > 0 ? base_bytes : 1] = '\0';
    int fd = fan_scan_open(root_fd, path, dir_bytes, O_PATH | O_DIRECTORY | O_NOFOLLOW);
    if (fd < 0)
        return fd;
    int rc = fan_scan_look(fd, name, entry, target);
    close(fd);
    return rc;
}

/* Opens the entry `entry` of an open directory. */
static int open_child(int dir_fd, const char *names, const struct fan_scan_entry *entry, int flags)
{
    return fan_scan_open(dir_fd, names + entry->name_offset, entry->name_bytes, flags);
}

int fan_scan_enter(const struct fan_scan *scan, uint64_t id, int flags)
{
    flags |= O_DIRECTORY | O_NOFOLLOW;
    if (scan->listed_fd >= 0 && id == scan->listed)
        return fan_scan_open(scan->listed_fd, "", 0, flags);
    if (scan->listed_fd >= 0 && scan->entries[id].parent == scan->listed)
        return open_child(scan->listed_fd, scan->names, &scan->entries[id], flags);
    char *path = NULL;
    uint64_t room = 0;
    int64_t bytes = fan_scan_path(scan->entries, scan->names, id, &path, &room);
    int fd = bytes < 0 ? (int)bytes : fan_scan_open(scan->root_fd, path, (uint64_t)bytes, flags);
    free(path);
    return fd;
}
