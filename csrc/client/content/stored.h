/*
 * The stored bytes of an open file, as they lie in its pack: from the mapped pack, by pread where
 * packs are used in place, through the block cache where another node has them.
 */
#ifndef FAN_CLIENT_STORED_H
#define FAN_CLIENT_STORED_H

#include <stdint.h>

#include "../files/filetable.h"
#include "../machine/copy.h"
#include "remote.h"

/* The longest time that copying bytes in memory takes: a copy that takes longer counts as a wait.
 */
#define FAN_STORED_COPY_NS(bytes) (INT64_C(50000) + (int64_t)(bytes))

/* Copies of this many bytes or more are timed: next to the copy the clock costs nothing. */
enum { FAN_STORED_TIMED_BYTES = 65536 };

/* fan_stored_read of a mapped file, and times it: the kernel may have to read pages from the disk.
 */
int fan_stored_read_timed(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);

/* fan_stored_read of a file whose pack is not mapped. */
int fan_stored_read_unmapped(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
    __attribute__((cold));

/* Copies the stored bytes [offset, offset + bytes), a range that passed the record's check. Returns
 * 0, -EIO, or -EFAULT. Inline, because every read calls it. */
static inline int fan_stored_read(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    if (__builtin_expect(file->data == NULL, 0))
        return fan_stored_read_unmapped(file, to, offset, bytes);
    return bytes < FAN_STORED_TIMED_BYTES ? fan_copy(to, file->data + offset, bytes)
                                          : fan_stored_read_timed(file, to, offset, bytes);
}

/* Returns the address of the bytes in `span` instead of copying them; `bytes` > 0. They lie in the
 * mapped pack, or in one block of the cache, or are read to memory of this process. If it returns 0
 * the caller unpins the span; errors as fan_stored_read, and -ENOMEM. A page of a mapped pack may
 * still fault (fan_touch). */
int fan_stored_pin(struct fan_file *file, uint64_t offset, uint64_t bytes, struct fan_span *span);

/* Unpins a span. false: the bytes may have changed while they were pinned. Pin them again; they
 * will then come from another source. */
bool fan_stored_unpin(const struct fan_span *span);

#endif
