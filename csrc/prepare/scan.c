#include "scan.h"

#include "examine.h"
#include "name_sort.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A step of a long path: shorter than PATH_MAX with room for any one name. */
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

/* Cuts the longest prefix that one openat accepts off the front of a path. */
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

/* Whether a time can be told in nanoseconds: from 1677 to 2262. */
static bool is_storable(const struct timespec *time)
{
    return time->tv_sec > INT64_MIN / 1000000000 && time->tv_sec < INT64_MAX / 1000000000;
}

static void fill_entry(struct fan_scan_entry *entry, const struct stat *st)
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
    fill_entry(entry, &st);
    if (!S_ISLNK(st.st_mode))
        return 0;
    ssize_t n = readlinkat(dir_fd, name, target, FAN_TARGET_MAX_BYTES);
    if (n <= 0 || n == FAN_TARGET_MAX_BYTES)
        return n < 0 ? -errno : -ENAMETOOLONG;
    entry->target_bytes = (uint32_t)n;
    return 0;
}

int fan_scan_stat(int root_fd, const char *path, uint64_t path_bytes,
                  struct fan_scan_entry *entry, char *target)
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

int64_t fan_scan_path(const struct fan_scan_entry *entries, const char *names, uint64_t id,
                      char **path, uint64_t *room)
{
    uint64_t bytes = 0;
    for (uint64_t at = id; at != 0; at = entries[at].parent)
        bytes += entries[at].name_bytes + 1;
    if (bytes + 1 > *room) {
        char *moved = realloc(*path, 2 * bytes + 1);
        if (moved == NULL)
            return -ENOMEM;
        *path = moved;
        *room = 2 * bytes + 1;
    }
    uint64_t end = bytes > 0 ? bytes - 1 : 0;
    int64_t length = (int64_t)end;
    (*path)[end] = '\0';
    for (uint64_t at = id; at != 0; at = entries[at].parent) {
        end -= entries[at].name_bytes;
        memcpy(*path + end, names + entries[at].name_offset, entries[at].name_bytes);
        if (end > 0)
            (*path)[--end] = '/';
    }
    return length;
}

/* Room for one more entry. 0 or -errno. */
static int grow_entries(struct fan_scan *scan)
{
    uint64_t bytes = (scan->entry_count + 1) * sizeof(*scan->entries);
    int rc = fan_room_grow(&scan->entries_room, bytes);
    scan->entries = (struct fan_scan_entry *)scan->entries_room.base;
    return rc;
}

/* The directory that is listed. */
struct listing {
    struct fan_scan *scan;
    uint64_t directory;
};

/* Adds an entry of which no more is known than its name. 0 or -errno. */
static int add_entry(void *context, const char *name)
{
    struct listing *listing = context;
    struct fan_scan *scan = listing->scan;
    struct fan_scan_entry entry = {.parent = listing->directory,
                                   .name_bytes = (uint32_t)strlen(name)};
    int rc = fan_scan_keep(scan, name, entry.name_bytes, &entry.name_offset);
    if (rc == 0)
        rc = grow_entries(scan);
    if (rc == 0)
        scan->entries[scan->entry_count++] = entry;
    return rc;
}

static bool is_dot(const char *name)
{
    return name[0] == '.' && (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

/* Collects a directory's names. 0, -errno of ours, or a positive errno of readdir. */
static int read_names(DIR *dir, struct fan_name_sort *names)
{
    for (;;) {
        errno = 0;
        const struct dirent *found = readdir(dir);
        if (found == NULL)
            return errno;
        int rc = is_dot(found->d_name) ? 0 : fan_name_sort_add(names, found->d_name);
        if (rc != 0)
            return rc;
    }
}

/* Lists one open directory. A failure to read it is noted in its entry. 0 or -errno. */
static int list_directory(struct fan_scan *scan, uint64_t id, DIR *dir)
{
    struct fan_name_sort names;
    struct listing listing = {scan, id};
    fan_name_sort_init(&names, scan->scratch_fd, scan->names_room.heap_bytes);
    int rc = read_names(dir, &names);
    if (rc > 0)
        scan->entries[id].error = rc;
    if (rc >= 0)
        rc = fan_name_sort_each(&names, add_entry, &listing);
    fan_name_sort_fini(&names);
    return rc;
}

/* Opens the child `entry` of an open directory. */
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

/* Keeps a descriptor of the directory that is listed, where there is one to be had. */
static void keep_listed(struct fan_scan *scan, uint64_t id, int fd)
{
    if (scan->listed_fd >= 0)
        close(scan->listed_fd);
    scan->listed = id;
    scan->listed_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

static int scan_directory(struct fan_scan *scan, uint64_t id)
{
    int fd = fan_scan_enter(scan, id, O_RDONLY);
    if (fd == -ENOMEM)
        return fd;
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        scan->entries[id].error = fd < 0 ? -fd : errno;
        if (fd >= 0)
            close(fd);
        return 0;
    }
    keep_listed(scan, id, fd);
    int rc = list_directory(scan, id, dir);
    closedir(dir);
    return rc;
}

int fan_scan_init(struct fan_scan *scan, int root_fd, int scratch_fd, uint64_t heap_bytes)
{
    struct stat st;
    *scan = (struct fan_scan){.root_fd = root_fd, .scratch_fd = scratch_fd, .listed_fd = -1};
    fan_room_init(&scan->entries_room, scratch_fd, heap_bytes);
    fan_room_init(&scan->names_room, scratch_fd, heap_bytes);
    if (fstat(root_fd, &st) != 0)
        return -errno;
    int rc = grow_entries(scan);
    if (rc == 0)
        rc = fan_room_grow(&scan->names_room, 1);
    if (rc != 0)
        return rc;
    scan->names = scan->names_room.base;
    memset(&scan->entries[0], 0, sizeof(scan->entries[0]));
    fill_entry(&scan->entries[0], &st);
    scan->entry_count = scan->examined = 1;
    return 0;
}

int fan_scan_step(struct fan_scan *scan, uint64_t entries)
{
    uint64_t enough = scan->entry_count + entries;
    while (scan->next_directory < scan->entry_count && scan->entry_count < enough) {
        int rc = scan->next_directory == scan->examined ? fan_scan_examine(scan) : 0;
        uint64_t id = scan->next_directory++;
        const struct fan_scan_entry *entry = &scan->entries[id];
        if (rc == 0 && S_ISDIR(entry->mode) && entry->error == 0)
            rc = scan_directory(scan, id);
        if (rc != 0)
            return rc;
    }
    int rc = fan_scan_examine(scan);
    return rc != 0 ? rc : scan->next_directory < scan->entry_count;
}

void fan_scan_fini(struct fan_scan *scan)
{
    fan_room_fini(&scan->entries_room);
    fan_room_fini(&scan->names_room);
    if (scan->listed_fd >= 0)
        close(scan->listed_fd);
    scan->listed_fd = -1;
    scan->entries = NULL;
    scan->names = NULL;
}
