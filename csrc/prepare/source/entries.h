/*
 * The entries of a source tree that a scan has found, and functions that open and examine them.
 *
 * Directories are opened relative to the root in steps shorter than PATH_MAX, so that neither the
 * length nor the depth of a path is limited.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "room.h"

/* cffi: begin */
/* One entry, with the fields that lstat returned. names + name_offset is its name, names +
 * target_offset the target of a symbolic link. error: the errno of a failure to examine it, or to
 * list it if it is a directory. */
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
    uint64_t examined; /* entries before it were examined; the others have only names */
    struct fan_room entries_room;
    struct fan_room names_room;
    int root_fd;
    int scratch_fd;
    uint64_t listed; /* the directory that was listed last, or is being listed */
    int listed_fd;   /* its descriptor, or -1 */
    int reserved;
};

/* Examines one path below root_fd, of any length, without following a final symbolic link, into
 * `entry` (no names). Its target goes to `target` (4096 bytes). Returns 0 or -errno. */
int fan_scan_stat(int root_fd, const char *path, uint64_t path_bytes, struct fan_scan_entry *entry,
                  char *target);

/* Opens a path of any length below root_fd. O_NOFOLLOW applies to the last component. Returns a
 * descriptor or -errno. */
int fan_scan_open(int root_fd, const char *path, uint64_t path_bytes, int flags);
/* cffi: end */

/* Opens directory `id`, starting from the last listed directory if that is `id` itself or its
 * parent: in a chain of 8,000 nested directories, opening them from the root takes a second per
 * thousand. Returns a descriptor or -errno. */
int fan_scan_enter(const struct fan_scan *scan, uint64_t id, int flags);

enum { FAN_TARGET_MAX_BYTES = 4096 };

/* Fills `entry` with the lstat of `name` in an open directory, and `target` with a link's target.
 * Returns 0 or -errno. */
int fan_scan_look(int dir_fd, const char *name, struct fan_scan_entry *entry,
                  char target[FAN_TARGET_MAX_BYTES]);

/* Fills an entry from the result of lstat, except its name and target. */
void fan_scan_fill(struct fan_scan_entry *entry, const struct stat *st);

/* Appends `n` bytes to the names and sets `offset` to where they begin. Returns 0 or -errno. */
int fan_scan_keep(struct fan_scan *scan, const char *bytes, size_t n, uint64_t *offset);
