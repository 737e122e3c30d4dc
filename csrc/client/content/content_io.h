/*
 * Reading the content of an open file: its stored bytes (stored.h), decoded where they are
 * compressed (decode.h).
 */
#ifndef FAN_CLIENT_CONTENT_IO_H
#define FAN_CLIENT_CONTENT_IO_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fan_file;

/* Points a new file at its content. 0, -EIO (damaged, or its pack is not where it should be). The
 * bytes of a remote file, and where there are other ranks of one that is damaged here, are looked
 * for when they are read. */
int fan_content_open(struct fan_file *file);

/* pread(2): up to `bytes` at `offset`, 0 at the end. The count, or -EIO, -EFAULT, -EINVAL,
 * -ENOMEM. */
ssize_t fan_content_pread(struct fan_file *file, void *to, size_t bytes, int64_t offset);

/* preadv(2) without flags. */
ssize_t fan_content_preadv(struct fan_file *file, const struct iovec *vector, int count,
                           int64_t offset);

/* read(2), readv(2): as above at the shared offset, which moves on. */
ssize_t fan_content_read(struct fan_file *file, void *to, size_t bytes);
ssize_t fan_content_readv(struct fan_file *file, const struct iovec *vector, int count);

/* Counts the bytes, or the error, of a read that was made otherwise than by the calls above, which
 * count by themselves. Returns `got`. */
ssize_t fan_content_counted(ssize_t got);

/* The same of a file whose `generation` was loaded before the read. -EBADF, not counted: another
 * thread has closed the descriptor since, so the bytes may be of any file. */
ssize_t fan_content_unless_closed(const struct fan_file *file, unsigned generation, ssize_t got);

/* lseek(2), with SEEK_DATA and SEEK_HOLE of a file without holes. The offset or -errno. */
int64_t fan_content_seek(struct fan_file *file, int64_t offset, int whence);

/* The shared offset, wherever it is kept; -errno where it cannot be had. */
int64_t fan_content_offset(struct fan_file *file);

#endif
