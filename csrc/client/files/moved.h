/*
 * Uses files whose open file description became the kernel's (../handoff/handoff.h), because a
 * program that the library cannot enter, or another process, shares it. The content is in a real
 * file. One real open file description keeps the offset; every process that shares it fetches it
 * from the store of the slot's arena. The slot's own offset is then negative: it is the key of the
 * description in the store.
 *
 * No function allocates or takes a lock, so all are safe in vfork children.
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fan_file;
struct fan_slot;

/* Call it before a fork. Makes the store through which the processes that share `file` exchange
 * descriptions. */
void fan_moved_prepare(const struct fan_file *file);

/* Fetches the real description of a slot whose offset is negative. Returns a descriptor,
 * close-on-exec, which the caller closes; or -errno. */
int fan_moved_fetch(const struct fan_slot *slot);

/* Are read, readv and lseek for a file whose offset is negative; the kernel does them. */
ssize_t fan_moved_read(struct fan_file *file, void *to, size_t bytes);
ssize_t fan_moved_readv(struct fan_file *file, const struct iovec *vector, int count);
int64_t fan_moved_seek(struct fan_file *file, int64_t offset, int whence);

/* Call it when a file's last descriptor in this process is closed. */
void fan_moved_end(struct fan_file *file);
