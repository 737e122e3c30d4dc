/*
 * Reads the stored bytes of an open file: from the mapped pack, by pread if packs are used in
 * place, or through the block cache if another node has them.
 */
#pragma once

#include <stdint.h>

#include "../files/filetable.h"
#include "../machine/copy.h"
#include "remote.h"

/* The longest time of a copy in memory: a copy that takes longer counts as a wait. */
#define FAN_STORED_COPY_NS(bytes) (INT64_C(50000) + (int64_t)(bytes))

/* Copies of at least this many bytes are timed; compared with such a copy the clock costs
 * nothing. */
enum { FAN_STORED_TIMED_BYTES = 65536 };

/* Is fan_stored_read for a mapped file, with the time taken, because the kernel may have to read
 * pages from the disk. */
int fan_stored_read_timed(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes);

/* Is fan_stored_read for a file whose pack is not mapped. */
int fan_stored_read_unmapped(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
    __attribute__((cold));

/* Looks whether stored bytes of a mapped pack are in memory. If not, makes the kernel begin to read
 * just these, or up to 1 MiB of a file that is read from start to end, and the thread's next read
 * looks, too. */
void fan_stored_look(const struct fan_file *file, uint64_t offset, uint64_t bytes)
    __attribute__((cold));

/* Calls fan_stored_look for some reads if the packs may not fit into memory. A look is a system
 * call that takes as long as a whole read. */
static inline void fan_stored_watch(const struct fan_file *file, uint64_t offset, uint64_t bytes)
{
    if (__builtin_expect(file->view->crowded, 0) && fan_thread_lane.unlooked-- == 0)
        fan_stored_look(file, offset, bytes);
}

/* Copies the stored bytes [offset, offset + bytes), a range that passed the record's check. Returns
 * 0, -EIO, or -EFAULT. Inline, because every read calls it. */
static inline int fan_stored_read(struct fan_file *file, char *to, uint64_t offset, uint64_t bytes)
{
    if (__builtin_expect(file->data == NULL, 0))
        return fan_stored_read_unmapped(file, to, offset, bytes);
    fan_stored_watch(file, offset, bytes);
    return bytes < FAN_STORED_TIMED_BYTES ? fan_copy(to, file->data + offset, bytes)
                                          : fan_stored_read_timed(file, to, offset, bytes);
}

/* Returns the address of the bytes in `span` instead of copying them; `bytes` > 0. They are in the
 * mapped pack, in one block of the cache, or in memory of this process to which they were read. If
 * it returns 0 the caller unpins the span; errors as fan_stored_read, and -ENOMEM. A page of a
 * mapped pack may still fault (fan_touch). */
int fan_stored_pin(struct fan_file *file, uint64_t offset, uint64_t bytes, struct fan_span *span);

/* Unpins a span. Returns false if the bytes may have changed while they were pinned: pin them
 * again, and they will come from another source. */
bool fan_stored_unpin(const struct fan_span *span);
