/*
 * Listing a directory of the mount: opendir(3) and its kin over the index, without a system call
 * where no output was ever made.
 *
 * A stream is told from libc's by its first word, which no DIR of libc's can hold (there it is a
 * descriptor and a lock). Streams are malloc'ed, as libc's are.
 */
#ifndef FAN_CLIENT_DIRSTREAM_H
#define FAN_CLIENT_DIRSTREAM_H

#include <dirent.h>
#include <stdbool.h>

#include "../files/filetable.h"
#include "../paths/resolve.h"

struct fan_dirstream;

/* A stream over a directory target. NULL with -errno in `error`. */
struct fan_dirstream *fan_dirstream_open(const struct fan_target *target, int *error);

/* A stream over an open directory descriptor, which it takes over. */
struct fan_dirstream *fan_dirstream_open_fd(int fd, const struct fan_file *file, int *error);

/* The stream behind a DIR, or NULL when it is libc's. */
struct fan_dirstream *fan_dirstream_of(DIR *dir);

/* The next entry, valid until the next call; NULL at the end, or with -EIO in `error`. */
struct dirent *fan_dirstream_read(struct fan_dirstream *stream, int *error);

long fan_dirstream_tell(const struct fan_dirstream *stream);
void fan_dirstream_seek(struct fan_dirstream *stream, long position);

/* From the beginning, with the outputs that there are now. */
void fan_dirstream_rewind(struct fan_dirstream *stream);

/* Its descriptor, opened when first asked for. -errno. */
int fan_dirstream_fd(struct fan_dirstream *stream);

/* Frees it. The descriptor to close, or -1. */
int fan_dirstream_close(struct fan_dirstream *stream);

/* Frees the snapshot of a directory descriptor (filetable.h). */
void fan_getdents_end(struct fan_entries *entries);

/* getdents64(2) of a directory descriptor, at its shared position. */
ssize_t fan_getdents(int fd, struct fan_file *file, void *buffer, size_t bytes);

#endif
