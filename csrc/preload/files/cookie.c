#include "cookie.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "../../client/files/filetable.h"
#include "../cancel.h"

static int cookie_fd(void *cookie)
{
    return (int)(intptr_t)cookie;
}

static ssize_t cookie_read(void *cookie, char *buffer, size_t bytes)
{
    return read(cookie_fd(cookie), buffer, bytes);
}

static int cookie_seek(void *cookie, off64_t *offset, int whence)
{
    off64_t at = lseek(cookie_fd(cookie), *offset, whence);
    if (at < 0)
        return -1;
    *offset = at;
    return 0;
}

static int cookie_close(void *cookie)
{
    return fan_close_quietly(cookie_fd(cookie));
}

/* Called only after freopen: no stream over a file of ours is written. */
static ssize_t cookie_write(void *cookie, const char *buffer, size_t bytes)
{
    ssize_t put = write(cookie_fd(cookie), buffer, bytes);
    return put > 0 ? put : 0;
}

/* In memory, the address of a table of functions follows a libc FILE. This is the address of the
 * table of cookie streams, once known. */
static _Atomic(const void *) cookie_calls;

static const void *calls_of(const FILE *stream)
{
    const void *calls;
    memcpy(&calls, (const char *)stream + sizeof(*stream), sizeof(calls));
    return calls;
}

bool fan_stream_is_ours(const FILE *stream)
{
    const void *known = atomic_load_explicit(&cookie_calls, memory_order_relaxed);
    return known != NULL && stream->_fileno >= 0 && calls_of(stream) == known;
}

FILE *fan_stream_make(int fd, const char *mode)
{
    const cookie_io_functions_t calls = {.read = cookie_read,
                                         .write = cookie_write,
                                         .seek = cookie_seek,
                                         .close = cookie_close};
    FILE *stream = fopencookie((void *)(intptr_t)fd, mode, calls);
    if (stream != NULL) {
        stream->_fileno = fd;
        atomic_store_explicit(&cookie_calls, calls_of(stream), memory_order_relaxed);
    }
    return stream;
}

void fan_stream_take_stdin(void)
{
    const struct fan_file *file = fan_file_get(0);
    if (file == NULL || file->kind != FAN_FILE_REGULAR || stdin == NULL || stdin->_fileno != 0 ||
        fan_stream_is_ours(stdin) || stdin->_IO_read_ptr != stdin->_IO_read_end)
        return;
    FILE *input = fan_stream_make(0, "r");
    if (input != NULL)
        stdin = input;
}
