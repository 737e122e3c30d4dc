#include "scan.h"

#include "name_sort.h"
#include "together.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* BATCH: the most directories that are listed at once. SORTS: of their names, how many may fill a
 * part of the heap's room before they go to files. */
enum { BATCH = 256, SORTS = 16 };

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

/* A directory and its names. error: the errno of a failure to list it; rc: the -errno of a failure
 * that ends the scan; fd: a descriptor of it for fan_scan_enter, or -1. */
struct listed {
    uint64_t id;
    struct fan_name_sort names;
    int error;
    int rc;
    int fd;
};

/* Directories that threads list together. text_bytes: of all their names in memory. */
struct batch {
    struct fan_scan *scan;
    unsigned count;
    _Atomic unsigned next;
    _Atomic uint64_t text_bytes;
    struct listed listed[BATCH];
};

static void list_directory(const struct fan_scan *scan, struct listed *listed, bool keeps_open)
{
    int fd = fan_scan_enter(scan, listed->id, O_RDONLY);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (dir == NULL) {
        listed->rc = fd == -ENOMEM ? fd : 0;
        listed->error = fd < 0 ? -fd : errno;
        if (fd >= 0)
            close(fd);
        return;
    }
    if (keeps_open)
        listed->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int rc = read_names(dir, &listed->names);
    listed->rc = rc < 0 ? rc : 0;
    listed->error = rc > 0 ? rc : 0;
    closedir(dir);
}

/* Begins no further directory once the names take as much memory as they may. */
static void *list_some(void *argument)
{
    struct batch *batch = argument;
    while (atomic_load(&batch->text_bytes) <= batch->scan->names_room.heap_bytes) {
        unsigned at = atomic_fetch_add(&batch->next, 1);
        if (at >= batch->count)
            break;
        list_directory(batch->scan, &batch->listed[at], at + 1 == batch->count);
        atomic_fetch_add(&batch->text_bytes, batch->listed[at].names.used);
    }
    return NULL;
}

static void keep_open(struct fan_scan *scan, const struct listed *listed)
{
    if (scan->listed_fd >= 0)
        close(scan->listed_fd);
    scan->listed = listed->id;
    scan->listed_fd = listed->fd;
}

/* Adds the names in a directory. Returns 0 or -errno. */
static int take_listed(struct fan_scan *scan, struct listed *listed)
{
    struct listing listing = {scan, listed->id};
    if (listed->error != 0)
        scan->entries[listed->id].error = listed->error;
    return listed->rc != 0 ? listed->rc : fan_name_sort_each(&listed->names, add_entry, &listing);
}

/* Collects examined directories that come next. Returns the first entry behind them. */
static uint64_t collect(struct batch *batch)
{
    const struct fan_scan *scan = batch->scan;
    uint64_t id = scan->next_directory;
    for (; id < scan->examined && batch->count < BATCH; id++) {
        if (S_ISDIR(scan->entries[id].mode) && scan->entries[id].error == 0)
            batch->listed[batch->count++] = (struct listed){.id = id, .fd = -1};
    }
    uint64_t run_bytes = scan->names_room.heap_bytes / (batch->count > 1 ? SORTS : 1);
    for (unsigned i = 0; i < batch->count; i++)
        fan_name_sort_init(&batch->listed[i].names, scan->scratch_fd, run_bytes);
    return id;
}

/* Lists the next directories, several at once: each takes some round trips on a network file
 * system. Returns 0 or -errno. */
static int list_next(struct fan_scan *scan)
{
    struct batch batch = {.scan = scan};
    uint64_t behind = collect(&batch);
    fan_together(batch.count, list_some, &batch);
    unsigned begun = atomic_load(&batch.next);
    int rc = 0;
    for (unsigned i = 0; i < batch.count && i < begun; i++) {
        if (batch.listed[i].fd >= 0)
            keep_open(scan, &batch.listed[i]);
        if (rc == 0)
            rc = take_listed(scan, &batch.listed[i]);
        fan_name_sort_fini(&batch.listed[i].names);
    }
    scan->next_directory = begun < batch.count ? batch.listed[begun].id : behind;
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
        if (rc == 0)
            rc = list_next(scan);
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
