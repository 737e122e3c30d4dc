/*
 * Lists directories of the mount: opendir(3) and related functions over the index. Makes no system
 * call for a directory in which no output was ever made.
 *
 * The first word of a stream distinguishes it from libc's: no DIR of libc can hold that value,
 * because libc keeps a descriptor and a lock there. Streams are malloc'ed, as libc's are.
 */
#pragma once

#include <dirent.h>

#include "../files/filetable.h"
#include "../paths/resolve.h"

struct fan_dirstream;

/* Opens a stream over a directory target. On failure returns NULL and sets `error` to -errno. */
struct fan_dirstream *fan_dirstream_open(const struct fan_target *target, int *error);

/* Opens a stream over an open directory descriptor, and takes the descriptor over. */
struct fan_dirstream *fan_dirstream_open_fd(int fd, const struct fan_file *file, int *error);

/* Returns the stream of a DIR, or NULL if the DIR is libc's. */
struct fan_dirstream *fan_dirstream_of(DIR *dir);

/* Returns the next entry, valid until the next call; NULL at the end, or on failure, with -EIO in
 * `error`. */
struct dirent *fan_dirstream_read(struct fan_dirstream *stream, int *error);

long fan_dirstream_tell(const struct fan_dirstream *stream);
void fan_dirstream_seek(struct fan_dirstream *stream, long position);

/* Starts again at the beginning, with the outputs that exist now. */
void fan_dirstream_rewind(struct fan_dirstream *stream);

/* Returns the stream's descriptor, which the first call opens, or -errno. */
int fan_dirstream_fd(struct fan_dirstream *stream);

/* Frees the stream. Returns the descriptor to close, or -1. */
int fan_dirstream_close(struct fan_dirstream *stream);

/* Frees the snapshot of a directory descriptor (dirstream.c). */
void fan_getdents_end(struct fan_entries *entries);

/* Does getdents64(2) of a directory descriptor, at its shared position. */
ssize_t fan_getdents(int fd, struct fan_file *file, void *buffer, size_t bytes);
