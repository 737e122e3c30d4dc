/*
 * Reads the stored bytes of files whose pack another node has, through this node's block cache. A
 * cached block costs no message and no system call; the client requests other blocks from the node
 * daemon, several at once. It holds no lock of the process while it waits; each wait has a limit,
 * and ends if the daemon ends.
 */
#pragma once

#include <stdint.h>

#include "cache_view.h"

struct fan_file;

/* The place of some stored bytes in memory. pin: keeps them in the cache; NULL if they need no pin.
 * memory: this process's own memory that holds the bytes, or NULL. */
struct fan_span {
    const char *at;
    uint64_t bytes;
    void *memory;
    struct fan_pin *pin;
    uint32_t entry;
    enum fan_stall_source source;
};

/* Reads the stored bytes [offset, offset + bytes), a range that passed the record's check. Returns
 * 0, -EIO (every copy is damaged), -EFAULT, or -EREMOTEIO: no rank can send them, but the shared
 * file system may have them. */
int fan_remote_read(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);

/* Like fan_remote_read, but pins the bytes in the cache instead of copying them. `bytes` > 0; all
 * must be in one block. -EAGAIN: they are in the cache, but not next to each other. If it returns 0
 * the caller unpins the span. */
int fan_remote_pin(struct fan_file *file, uint64_t offset, uint64_t bytes, struct fan_span *span);

/* Unpins a span with a pin. Returns false if the daemon took this process for dead meanwhile: the
 * bytes may have changed, and the session is over. */
bool fan_remote_unpin(const struct fan_span *span);

/* Tells the daemon that [offset, offset + bytes), bytes > 0, will be read soon; does nothing
 * without a session. Does not wait; the hint may be dropped. */
void fan_remote_hint(const struct fan_file *file, uint64_t offset, uint64_t bytes);

/* Tells the daemon that this process has the file open, so that it keeps the file's blocks. If that
 * fails, the first read tries again. */
void fan_remote_open(struct fan_file *file);

/* Tells the daemon about the last close of a file in this process. Call it only if `registered` is
 * set. */
void fan_remote_close(struct fan_file *file);
