#include "gather.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "paths.h"

enum { NAME_ROOM = 256, FILE_FLAGS = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC };

/* The directory of the last file, kept open for the next file. */
struct place_in_tree {
    int root_fd;
    int fd;
    uint64_t directory;
    char *path;
    uint64_t path_room;
};

static void leave(struct place_in_tree *place)
{
    if (place->fd >= 0)
        close(place->fd);
    free(place->path);
}

/* Returns a descriptor of `directory`, or -errno. */
static int enter(struct place_in_tree *place, const struct fan_scan_entry *entries,
                 const char *names, uint64_t directory)
{
    if (place->fd >= 0 && place->directory == directory)
        return place->fd;
    int64_t bytes = fan_scan_path(entries, names, directory, &place->path, &place->path_room);
    if (bytes < 0)
        return (int)bytes;
    if (place->fd >= 0)
        close(place->fd);
    place->fd = fan_scan_open(place->root_fd, place->path, (uint64_t)bytes,
                              O_PATH | O_DIRECTORY | O_NOFOLLOW);
    place->directory = directory;
    return place->fd;
}

static int open_file(struct place_in_tree *place, const struct fan_scan_entry *entries,
                     const char *names, uint64_t id)
{
    const struct fan_scan_entry *entry = &entries[id];
    char name[NAME_ROOM];
    int dir_fd = enter(place, entries, names, entry->parent);
    if (dir_fd < 0)
        return dir_fd;
    if (entry->name_bytes >= sizeof(name))
        return -ENAMETOOLONG;
    memcpy(name, names + entry->name_offset, entry->name_bytes);
    name[entry->name_bytes] = '\0';
    int fd = openat(dir_fd, name, FILE_FLAGS);
    return fd >= 0 ? fd : -errno;
}

int64_t fan_gather_try(int root_fd, const struct fan_scan_entry *entries, const char *names,
                       const uint64_t *ids, uint64_t count, int32_t *errors)
{
    struct place_in_tree place = {.root_fd = root_fd, .fd = -1};
    int64_t failed = 0;
    for (uint64_t i = 0; i < count; i++) {
        int fd = open_file(&place, entries, names, ids[i]);
        errors[i] = fd < 0 ? -fd : 0;
        failed += fd < 0;
        if (fd >= 0)
            close(fd);
    }
    leave(&place);
    return failed;
}

int fan_gather_open(int root_fd, const struct fan_scan_entry *entries, const char *names,
                    uint64_t id)
{
    struct place_in_tree place = {.root_fd = root_fd, .fd = -1};
    int fd = open_file(&place, entries, names, id);
    leave(&place);
    return fd;
}

static int64_t to_ns(const struct timespec *time)
{
    return (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
}

/* Compares after reading: a write since the scan has changed the size or one of the times. */
int fan_gather_check(int fd, const struct fan_scan_entry *entry)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    int same = st.st_ino == entry->ino && st.st_dev == entry->dev &&
               (uint64_t)st.st_size == entry->size && st.st_mode == entry->mode &&
               to_ns(&st.st_mtim) == entry->mtime_ns && to_ns(&st.st_ctim) == entry->ctime_ns;
    return same ? 0 : FAN_GATHER_CHANGED;
}

/* Reads exactly `bytes`. Returns 0, FAN_GATHER_CHANGED if the file is shorter, or -errno. */
static int read_whole(int fd, char *buffer, uint64_t bytes)
{
    while (bytes > 0) {
        ssize_t n = read(fd, buffer, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : FAN_GATHER_CHANGED;
        buffer += n;
        bytes -= (uint64_t)n;
    }
    return 0;
}

static int gather_one(struct place_in_tree *place, const struct fan_scan_entry *entries,
                      const char *names, uint64_t id, char *buffer)
{
    int fd = open_file(place, entries, names, id);
    if (fd < 0)
        return -fd;
    int rc = read_whole(fd, buffer, entries[id].size);
    if (rc == 0)
        rc = fan_gather_check(fd, &entries[id]);
    close(fd);
    return rc < 0 ? -rc : rc;
}

int64_t fan_gather(int root_fd, const struct fan_scan_entry *entries, const char *names,
                   const uint64_t *ids, uint64_t count, const uint64_t *places, char *buffer,
                   int32_t *errors)
{
    struct place_in_tree place = {.root_fd = root_fd, .fd = -1};
    int64_t failed = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t size = entries[ids[i]].size;
        errors[i] = gather_one(&place, entries, names, ids[i], buffer + places[i]);
        if (errors[i] != 0) {
            size = 0;
            failed++;
        }
        memset(buffer + places[i] + size, 0, places[i + 1] - places[i] - size);
    }
    leave(&place);
    return failed;
}
