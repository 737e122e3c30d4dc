/*
 * Walking a source tree: every entry under a directory, breadth first, the children of each
 * directory together and sorted by name. That is the order of the index's records.
 *
 * Directories are opened relative to the root in steps shorter than PATH_MAX, so that neither
 * the length nor the depth of a path is limited. Not safe for concurrent use of one scan.
 */
#ifndef FAN_PREPARE_SCAN_H
#define FAN_PREPARE_SCAN_H

#include <stddef.h>
#include <stdint.h>

#include "room.h"

/* cffi: begin */
/* What lstat says of one entry. names + name_offset is its name, names + target_offset the
 * target of a symbolic link. error: why it could not be examined or, a directory, listed. */
struct fan_scan_entry {
    uint64_t parent;
    uint64_t name_offset;
    uint64_t target_offset;
    uint64_t size;
    int64_t mtime_ns;
    int64_t ctime_ns;
    uint64_t dev;
    uint64_t ino;
    uint32_t name_bytes;
    uint32_t target_bytes;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    uint32_t nlink;
    int32_t error;
    uint32_t reserved;
};

struct fan_scan {
    struct fan_scan_entry *entries;
    char *names;
    uint64_t entry_count;
    uint64_t names_bytes;
    uint64_t next_directory;
    uint64_t examined; /* entries before this one are known, of the others only the names */
    struct fan_room entries_room;
    struct fan_room names_room;
    int root_fd;
    int scratch_fd;
    uint64_t listed; /* the directory that was listed last, */
    int listed_fd;   /* and a descriptor of it, or -1 */
    int reserved;
};

/* Starts at the directory `root_fd`. What is more than `heap_bytes` goes to files in `scratch_fd`
 * (-1: nothing does). Both are borrowed. 0 or -errno. */
int fan_scan_init(struct fan_scan *scan, int root_fd, int scratch_fd, uint64_t heap_bytes);

/* Lists directories until at least `entries` more were found, which several threads examine.
 * 1: there is more to list; 0: the scan is complete; -ENOMEM, or -errno of a file in scratch_fd.
 * What cannot be read is noted in its entry and passed over. */
int fan_scan_step(struct fan_scan *scan, uint64_t entries);

/* Frees what a scan that was begun holds. */
void fan_scan_fini(struct fan_scan *scan);

/* Examines one path below root_fd, of any length, without following a final symbolic link, into
 * `entry` (no names). Its target goes to `target` (4096 bytes). 0 or -errno. */
int fan_scan_stat(int root_fd, const char *path, uint64_t path_bytes,
                  struct fan_scan_entry *entry, char *target);

/* Opens a path of any length below root_fd. A descriptor or -errno. O_NOFOLLOW holds for the
 * last component. */
int fan_scan_open(int root_fd, const char *path, uint64_t path_bytes, int flags);
/* cffi: end */

/* Opens directory `id`, from the one that was listed last where that is itself or its parent: opened
 * from the root, 8,000 directories in one another take a second a thousand. A descriptor or -errno. */
int fan_scan_enter(const struct fan_scan *scan, uint64_t id, int flags);

/* The path of an entry into a buffer grown with realloc, NUL-terminated. The length or -ENOMEM. */
int64_t fan_scan_path(const struct fan_scan_entry *entries, const char *names, uint64_t id,
                      char **path, uint64_t *room);

enum { FAN_TARGET_MAX_BYTES = 4096 };

/* lstat of `name` in an open directory into `entry`, a link's target into `target`. 0 or -errno. */
int fan_scan_look(int dir_fd, const char *name, struct fan_scan_entry *entry,
                  char target[FAN_TARGET_MAX_BYTES]);

/* Keeps `n` bytes among the names. 0 or -errno. */
int fan_scan_keep(struct fan_scan *scan, const char *bytes, size_t n, uint64_t *offset);

#endif
