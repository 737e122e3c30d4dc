/*
 * Stage-out of files: small ones are copied, synced and renamed many at a time, large ones are
 * copied in pieces. Written in C because in Python each step would wait for the daemon's other
 * threads, which takes longer than the step.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../format/shm_format.h"

/* cffi: begin */
/* A copy of a file. The caller sets the attributes, times in nanoseconds. fd: the open copy; if
 * there is none, error is the errno. */
struct fan_file_copy {
    int64_t atime_ns;
    int64_t mtime_ns;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    int32_t fd;
    int32_t error;
};

/* Identifies a file, so that a later check notices another file under its name. */
struct fan_identity {
    uint64_t inode;
    uint64_t size;
    int64_t mtime_ns;
};

/* Copies `count` files and sets the attributes of the copies; syncs nothing. paths: for each file
 * its path and its copy's, each ended by a zero byte. by_link: gives the file itself a second name
 * instead, and leaves its attributes alone. A file with holes is not copied (EOPNOTSUPP); a failed
 * copy leaves nothing behind. Once *ended is not 0 no further files are copied (ECANCELED). */
void fan_copy_files(const char *paths, uint64_t count, struct fan_file_copy *copies, bool by_link,
                    const int32_t *ended);

/* Copies bytes `at` to `end` of a file, or the first of them, to the same offsets of another file.
 * If the file system can, both files share the bytes. Returns how many it copied, or -errno: -EIO
 * if the file is shorter. */
int64_t fan_copy_piece(int32_t from, int32_t to, int64_t at, int64_t end);

/* Syncs a whole file system, if its type (statfs(2)) is one for which this surely writes the bytes
 * and names of these files to its disks. errors: 0 or an errno for each file. Returns whether it
 * synced; if not, errors means nothing. */
int fan_sync_whole(const int32_t *fds, uint64_t count, int32_t *errors);

/* Closes these descriptors. */
void fan_close_all(const int32_t *fds, uint64_t count);

/* Renames `count` files one after the other to names that are free, until one fails or *ended is
 * not 0. paths: the old and the new path of each, each ended by a zero byte. Returns how many it
 * renamed, and fills their identities; *error: the errno for the next file, 0 if it was not tried.
 */
uint64_t fan_name_files(const char *paths, uint64_t count, struct fan_identity *identities,
                        const int32_t *ended, int32_t *error);
/* Renames `from` to `to`, which must not exist. Returns 0, or an errno: EEXIST if it does. If the
 * file system cannot do that in one step, the call is nearly as safe for files, but less so for
 * directories. */
int fan_rename_to_free(const char *from, const char *to);

/* Swaps two names. Returns 0, or an errno: EOPNOTSUPP if the file system cannot do it. */
int fan_exchange_names(const char *one, const char *other);

/* Reserves disk space for a file, also beyond its end, without changing its size. Returns 0 or an
 * errno. */
int fan_reserve(int32_t fd, int64_t start, int64_t bytes);

/* Returns when a file or link was created, in nanoseconds since 1970; -1 if its file system does
 * not record that, or if nothing is there. */
int64_t fan_birth_ns(const char *path);

/* Returns the number of the process that has the file open for writing, FAN_WRITER_KILLED, or 0 if
 * none has. */
uint32_t fan_writer_of(const struct fan_outputs *outputs, uint64_t inode);

/* Adds one to a counter in memory that other processes also add to. */
void fan_count_up(uint64_t *count);
/* cffi: end */
