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

/* The longest time that a copy of bytes in memory takes: longer ones count as waits. */
#define FAN_STORED_COPY_NS(bytes) (INT64_C(50000) + (int64_t)(bytes))

/* Copies of so many bytes are timed: beside them that costs nothing. */
enum { FAN_STORED_TIMED_BYTES = 65536 };

/* fan_stored_read of a mapped file, whose pages the disk may have to give. */
int fan_stored_read_timed(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);

/* fan_stored_read of a file whose pack is not mapped. */
int fan_stored_read_unmapped(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
    __attribute__((cold));

/* All of [offset, offset + bytes) of the stored bytes, which the record's check allows. 0, -EIO,
 * or -EFAULT. Inline: every read passes here. */
static inline int fan_stored_read(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    if (__builtin_expect(file->data == NULL, 0))
        return fan_stored_read_unmapped(file, to, offset, bytes);
    return bytes < FAN_STORED_TIMED_BYTES ? fan_copy(to, file->data + offset, bytes)
                                          : fan_stored_read_timed(file, to, offset, bytes);
}

/* Finds them instead, `bytes` > 0: in the mapped pack or in the cache where they lie there in one
 * piece, else in memory that they are read to. After 0 the span is the caller's to unpin; or as
 * fan_stored_read, -ENOMEM. A page of a mapped pack may still fault (fan_touch). */
int fan_stored_pin(struct fan_file *file, uint64_t offset, uint64_t bytes, struct fan_span *span);

/* false: the bytes may have changed while they were pinned. They are to be pinned again, and will
 * then come from elsewhere. */
bool fan_stored_unpin(const struct fan_span *span);

#endif
