/*
 * Implements fread. For its own streams, libc reads requests larger than the buffer directly into
 * the caller's memory; for a cookie stream it fills the buffer again and again, and copies each
 * time. This file reads directly for cookie streams, too.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../client/job/job.h"
#include "../files/cookie.h"
#include "../real.h"

#undef fread_unlocked /* stdio.h defines a macro */

/* libc's flags of a stream (libio.h). */
enum {
    UNBUFFERED = 0x2,
    NO_READS = 0x4,
    IN_BACKUP = 0x100,
    LINE_BUFFERED = 0x200,
    WRITING = 0x800,
    /* In these states libc must do more than read. */
    SPECIAL = UNBUFFERED | NO_READS | _IO_EOF_SEEN | IN_BACKUP | LINE_BUFFERED | WRITING
};

static size_t buffered(const FILE *stream)
{
    return (size_t)(stream->_IO_read_end - stream->_IO_read_ptr);
}

static bool is_plain(const FILE *stream)
{
    return (stream->_flags & SPECIAL) == 0 && stream->_mode <= 0;
}

static size_t drain(FILE *stream, char *to)
{
    size_t bytes = buffered(stream);
    if (bytes > 0)
        memcpy(to, stream->_IO_read_ptr, bytes);
    stream->_IO_read_base = stream->_IO_read_ptr = stream->_IO_read_end = stream->_IO_buf_base;
    stream->_IO_write_base = stream->_IO_write_ptr = stream->_IO_write_end = stream->_IO_buf_base;
    return bytes;
}

/* Copies what the stream has buffered, and reads the rest from its descriptor. Returns the number
 * of bytes. */
static size_t read_through(FILE *stream, char *to, size_t bytes)
{
    size_t done = drain(stream, to);
    if (stream->_mode == 0)
        stream->_mode = -1; /* marks it as a stream of bytes */
    while (done < bytes) {
        ssize_t got = read(stream->_fileno, to + done, bytes - done);
        if (got <= 0) {
            stream->_flags |= got == 0 ? _IO_EOF_SEEN : _IO_ERR_SEEN;
            break;
        }
        done += (size_t)got;
        if (stream->_offset >= 0) /* if libc knows the offset */
            stream->_offset += got;
    }
    return done;
}

static void unlock(void *stream)
{
    funlockfile(stream);
}

typedef size_t fread_fn(void *to, size_t size, size_t count, FILE *stream);

static size_t read_locked(fread_fn *real, void *to, size_t size, size_t count, FILE *stream)
{
    size_t bytes = size * count, items;
    if (is_plain(stream) && bytes >= buffered(stream) + BUFSIZ)
        items = read_through(stream, to, bytes) / size;
    else
        items = real(to, size, count, stream);
    return items;
}

/* Returns whether more is asked for than libc would take from a buffer. */
static bool is_large(size_t size, size_t count, const FILE *stream)
{
    size_t bytes;
    return fan_job.view_count > 0 && !__builtin_mul_overflow(size, count, &bytes) &&
           bytes >= BUFSIZ && fan_stream_is_ours(stream);
}

FAN_EXPORT size_t fread_unlocked(void *to, size_t size, size_t count, FILE *stream)
{
    if (!is_large(size, count, stream))
        return REAL(fread_unlocked)(to, size, count, stream);
    return read_locked(REAL(fread_unlocked), to, size, count, stream);
}

FAN_EXPORT size_t fread(void *to, size_t size, size_t count, FILE *stream)
{
    if (!is_large(size, count, stream))
        return REAL(fread)(to, size, count, stream);
    size_t items;
    flockfile(stream);
    pthread_cleanup_push(unlock, stream);
    items = read_locked(REAL(fread_unlocked), to, size, count, stream);
    pthread_cleanup_pop(1);
    return items;
}
