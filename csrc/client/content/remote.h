/*
 * Files whose pack another node has: their stored bytes, through the node's block cache. A block
 * that is there costs no message and no system call; the others are asked of the node daemon,
 * several at once. Nothing process-wide is held while waiting; each wait is bounded, and ends with
 * the daemon.
 */
#ifndef FAN_CLIENT_REMOTE_H
#define FAN_CLIENT_REMOTE_H

#include <stdint.h>

#include "cache_view.h"

struct fan_file;

/* Stored bytes where they lie. pin: keeps them in the cache; NULL: nothing needs to. memory: of
 * this process's own, with the bytes in it, or NULL. */
struct fan_span {
    const char *at;
    uint64_t bytes;
    void *memory;
    struct fan_pin *pin;
    uint32_t entry;
    enum fan_stall_source source;
};

/* All of [offset, offset + bytes) of the stored bytes, which the record's check allows. 0, -EIO
 * (damaged wherever it lies), -EFAULT, or -EREMOTEIO: not to be had this way, the shared file
 * system may have it. */
int fan_remote_read(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);

/* As fan_remote_read, of bytes > 0 that lie in one block of the cache: they are pinned there. After
 * 0 the span is the caller's to unpin. */
int fan_remote_pin(struct fan_file *file, uint64_t offset, uint64_t bytes, struct fan_span *span);

/* Unpins a span with a pin. false: the daemon took this process for dead meanwhile, so the bytes
 * may have changed; the session is at its end. */
bool fan_remote_unpin(const struct fan_span *span);

/* Tells the daemon that [offset, offset + bytes), bytes > 0, will be read soon, where there is a
 * session already. Waits for nothing; the hint may be forgotten. */
void fan_remote_hint(const struct fan_file *file, uint64_t offset, uint64_t bytes);

/* Tells the daemon that this process has the file open, so that its blocks are kept. Where that
 * fails, the first read does it. */
void fan_remote_open(struct fan_file *file);

/* At the last close in this process, of a file that has `registered` set. */
void fan_remote_close(struct fan_file *file);

#endif
