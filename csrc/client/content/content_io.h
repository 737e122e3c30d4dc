/*
 * Reads the content of an open file: its stored bytes (stored.h), which are decoded if they are
 * compressed (decode.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fan_file;

/* Points a new file at its content. Returns 0, or -EIO if the file is damaged or its pack is
 * missing. The bytes of a remote file are only looked for when they are read; so are those of a
 * file that is damaged here, if there are other ranks. */
int fan_content_open(struct fan_file *file);

/* Is pread(2): reads up to `bytes` at `offset`. Returns the count, 0 at the end of the file, or
 * -EIO, -EFAULT, -EINVAL, -ENOMEM. */
ssize_t fan_content_pread(struct fan_file *file, void *to, size_t bytes, int64_t offset);

/* Is preadv(2) without flags. */
ssize_t fan_content_preadv(struct fan_file *file, const struct iovec *vector, int count,
                           int64_t offset);

/* Are read(2) and readv(2): read at the shared offset, and advance it. */
ssize_t fan_content_read(struct fan_file *file, void *to, size_t bytes);
ssize_t fan_content_readv(struct fan_file *file, const struct iovec *vector, int count);

/* Counts the bytes or the error of a read that did not go through the calls above, which count by
 * themselves. Returns `got`. */
ssize_t fan_content_counted(ssize_t got);

/* Like fan_content_counted, for a file whose `generation` was loaded before the read. Returns
 * -EBADF and counts nothing if another thread has closed the descriptor since, because the bytes
 * may then be of any file. */
ssize_t fan_content_unless_closed(const struct fan_file *file, unsigned generation, ssize_t got);

/* Is lseek(2); for SEEK_DATA and SEEK_HOLE the file has no holes. Returns the offset or -errno. */
int64_t fan_content_seek(struct fan_file *file, int64_t offset, int whence);

/* Returns the shared offset, which the slot or the kernel keeps; -errno if it cannot be read. */
int64_t fan_content_offset(struct fan_file *file);

/* Passes on the program's own hint (posix_fadvise(2), readahead(2)) that it will soon read `bytes`
 * of a regular file from `offset` on; 0 means all up to its end. The hint goes to the kernel for
 * bytes on a disk, and to the node daemon for bytes that must come from elsewhere. It never waits,
 * and may be dropped. */
void fan_hint(struct fan_file *file, int64_t offset, int64_t bytes);
