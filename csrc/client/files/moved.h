/*
 * Using files whose open file description became the kernel's (move.h), because a program that the
 * library cannot enter, or another process, shares it. The content is in a real file; the offset is
 * that of one real description, which every sharer reaches through the store of the slot's arena.
 * The slot's own offset is then negative, and names the description there.
 *
 * Nothing allocates or locks; safe in vfork children.
 */
#ifndef FAN_CLIENT_MOVED_H
#define FAN_CLIENT_MOVED_H

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fan_file;
struct fan_slot;

/* Before a fork: makes the store in which the sharers of `file` will meet. */
void fan_moved_prepare(const struct fan_file *file);

/* The real description of a slot whose offset is negative. A descriptor, closed on exec, for the
 * caller to close; or -errno. */
int fan_moved_fetch(const struct fan_slot *slot);

/* read, readv and lseek of a file whose offset is negative, past the library. */
ssize_t fan_moved_read(struct fan_file *file, void *to, size_t bytes);
ssize_t fan_moved_readv(struct fan_file *file, const struct iovec *vector, int count);
int64_t fan_moved_seek(struct fan_file *file, int64_t offset, int whence);

/* The last descriptor of a file in this process has gone. */
void fan_moved_end(struct fan_file *file);

#endif
