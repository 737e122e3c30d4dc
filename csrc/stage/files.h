/*
 * Stage-out of small files: copied, synced and named many at a time. One by one from Python, each
 * step waits for the other threads of the daemon, which takes longer than the step. And pieces of
 * large ones.
 */
#ifndef FAN_STAGE_FILES_H
#define FAN_STAGE_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "../format/shm_format.h"

/* cffi: begin */
/* A copy of a file. Given: its attributes, times in nanoseconds. fd: the copy, open; where there is
 * none, error says why (an errno). */
struct fan_file_copy {
    int64_t atime_ns;
    int64_t mtime_ns;
    uint32_t mode;
    uint32_t uid;
    uint32_t gid;
    int32_t fd;
    int32_t error;
};

/* Tells a file from another that took its place. */
struct fan_identity {
    uint64_t inode;
    uint64_t size;
    int64_t mtime_ns;
};

/* Copies `count` files and gives the copies their attributes; syncs nothing. paths: of each the
 * file's and its copy's, each ended by a zero byte. by_link: the file itself gets a second name
 * instead, and keeps its attributes. A file with holes is not copied (EOPNOTSUPP); of what fails nothing
 * is left. Once *ended is not 0 no more are (ECANCELED). */
void fan_copy_files(const char *paths, uint64_t count, struct fan_file_copy *copies, bool by_link,
                    const int32_t *ended);

/* Copies bytes of a file from `at` to `end`, or some of them, to the same place of another one:
 * shared between both where the file system can. Returns how many that were; -errno, EIO where the
 * file is shorter. */
int64_t fan_copy_piece(int32_t from, int32_t to, int64_t at, int64_t end);

/* Syncs all of a file system, if that has the bytes and names of these files on its disks for sure
 * (statfs(2) tells by its type). errors: of each file 0, or an errno. Returns whether it did; if
 * not, errors says nothing. */
int fan_sync_whole(const int32_t *fds, uint64_t count, int32_t *errors);

/* Closes these descriptors. */
void fan_close_all(const int32_t *fds, uint64_t count);

/* Renames `count` files one after the other to names that are free, until one fails or *ended is
 * not 0. paths: the old and the new one of each, each ended by a zero byte. Returns how many it
 * renamed, with their identities; *error: why not the next, 0 if it did not try. */
uint64_t fan_name_files(const char *paths, uint64_t count, struct fan_identity *identities,
                        const int32_t *ended, int32_t *error);
/* Renames to a name that is free; 0, or an errno: EEXIST where it is not. Where the file system
 * cannot do that in one step it is nearly as safe, with directories alone less. */
int fan_rename_to_free(const char *from, const char *to);

/* Lets two names change places; 0, or an errno: EOPNOTSUPP where the file system cannot. */
int fan_exchange_names(const char *one, const char *other);

/* Takes room on the disk for a file beyond its end; 0, or an errno. */
int fan_reserve(int32_t fd, int64_t start, int64_t bytes);

/* Returns when a file or link was made, in nanoseconds since 1970; -1 if its file system does not
 * record that, or nothing is there. */
int64_t fan_birth_ns(const char *path);

/* The process that has a file open for writing, FAN_WRITER_KILLED, or 0. */
uint32_t fan_writer_of(const struct fan_outputs *outputs, uint64_t inode);

/* Counts one more in memory that other processes count in, too. */
void fan_count_up(uint64_t *count);
/* cffi: end */

#endif
