/* Helpers for calls that are meant for other kinds of descriptors, but get a file of ours. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/types.h>

#include "../../client/files/filetable.h"

/* Returns the regular file of a descriptor; NULL for all other descriptors, for which the kernel's
 * answer is right. */
static inline struct fan_file *fan_regular(int fd)
{
    struct fan_file *file = fan_file_get(fd);
    return file != NULL && file->kind == FAN_FILE_REGULAR ? file : NULL;
}

/* Returns whether a file (or NULL) has a placeholder as its descriptor. */
static inline bool fan_is_placeholder(const struct fan_file *file)
{
    return file != NULL && (file->kind == FAN_FILE_REGULAR || file->kind == FAN_FILE_PATH);
}

static inline bool fan_file_is_directory(const struct fan_file *file)
{
    unsigned kind = file->kind;
    return kind == FAN_FILE_DIRECTORY || kind == FAN_FILE_OUTDIR;
}

/* Is fan_file_is_path for a file for which fan_file_is_directory is true. */
static inline bool fan_directory_is_path(const struct fan_file *file)
{
    return file->slot->status & O_PATH;
}

/* Returns whether the program opened `fd` with O_PATH. file: the table's entry for it, or NULL. */
bool fan_file_is_path(int fd, const struct fan_file *file);

/* Returns the real call's result for a descriptor, but changes EBADF, which a placeholder causes,
 * to the errno for a file. */
static inline long fan_of_file(long rc, int fd, int error)
{
    if (__builtin_expect((int)rc == -1, 0) && errno == EBADF && fan_regular(fd) != NULL)
        errno = error;
    return rc;
}

/* Returns the inode number that stat(2) shows for an entry of a directory in the output tree
 * (stat.c). */
ino_t fan_shown_inode(int directory, const char *name, ino_t inode);
