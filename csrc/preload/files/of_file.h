/* Calls for other kinds of descriptors, given a file of ours. */
#ifndef FAN_PRELOAD_OF_FILE_H
#define FAN_PRELOAD_OF_FILE_H

#include <errno.h>
#include <sys/types.h>

#include "../../client/files/filetable.h"

static inline bool fan_is_regular(int fd)
{
    const struct fan_file *file = fan_file_get(fd);
    return file != NULL && file->kind == FAN_FILE_REGULAR;
}

/* What the real call said of a descriptor: EBADF, which a placeholder makes, becomes the errno for
 * a file. */
static inline long fan_of_file(long rc, int fd, int error)
{
    if (__builtin_expect(rc == -1, 0) && errno == EBADF && fan_is_regular(fd))
        errno = error;
    return rc;
}

/* The inode number that stat(2) shows of an entry of a directory in the output tree (stat.c). */
ino_t fan_shown_inode(int directory, const char *name, ino_t inode);

#endif
