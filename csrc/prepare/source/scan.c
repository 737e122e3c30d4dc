#include "scan.h"

#include "name_sort.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Makes room for one more entry. Returns 0 or -errno. */
static int grow_entries(struct fan_scan *scan)
{
    uint64_t bytes = (scan->entry_count + 1) * sizeof(*scan->entries);
    int rc = fan_room_grow(&scan->entries_room, bytes);
    scan->entries = (struct fan_scan_entry *)scan->entries_room.base;
    return rc;
}

/* The directory that is being listed. */
struct listing {
    struct fan_scan *scan;
    uint64_t directory;
};

/* Adds an entry of which only the name is known. Returns 0 or -errno. */
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

/* Collects the names in a directory. Returns 0, -errno of the sort, or a positive errno of
 * readdir. */
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

/* Lists one open directory. Stores a failure to read it in its entry. Returns 0 or -errno. */
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

/* Keeps a descriptor of the directory that is listed, if one is free. */
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
    fan_scan_fill(&scan->entries[0], &st);
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
