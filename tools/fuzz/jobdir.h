/* Makes a job directory like the node daemon's, for programs that use the client code directly. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define JOBDIR_LANES 64
#define JOBDIR_PREFIX "/fanstore-mount"

enum {
    JOBDIR_RECORDS_MAX = 1 << 16,
    JOBDIR_LARGE_OFFSET = 1 << 29 /* files of more than 8 KiB have content from this offset on */
};

/* Makes `directory` with a segment of one mount at JOBDIR_PREFIX, a placeholder, an index and one
 * staged pack, and attaches this process to it. `index` must describe one pack of `pack_bytes`;
 * byte j of file `id` in the pack is jobdir_byte(id, j). Aborts on failure. */
void jobdir_attach(const char *directory, const void *index, size_t index_bytes,
                   uint64_t pack_bytes);

/* Replaces the index, and unmaps the one before. */
void jobdir_replace_index(const void *index, size_t index_bytes);

/* Returns byte j of file `id`, which differs between neighbouring bytes, pages and MiBs. */
static inline uint8_t jobdir_byte(uint64_t id, uint64_t j)
{
    return (uint8_t)(id * 31 + j + (j >> 12) * 7 + (j >> 20) * 13);
}

/* Writes bytes [offset, offset + bytes) of file `id` to `to`. */
void jobdir_fill(uint8_t *to, uint64_t id, uint64_t offset, size_t bytes);

/* jobdir_segment_bytes returns the size of the attached segment, the next function where the trace
 * begins in it. */
uint64_t jobdir_segment_bytes(void);
uint64_t jobdir_trace_offset(void);
