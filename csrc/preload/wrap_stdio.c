/*
 * FILE streams over files of the mount. libc's stdio never passes through its own exported read, so
 * a stream is made with fopencookie; its descriptor number is entered, so that fileno answers it.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "../client/content_io.h"
#include "../client/filetable.h"
#include "../client/open.h"
#include "real.h"
#include "streams.h"

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
    return close(cookie_fd(cookie));
}

static FILE *make_stream(int fd, const char *mode)
{
    const cookie_io_functions_t calls = {
        .read = cookie_read, .seek = cookie_seek, .close = cookie_close};
    FILE *stream = fopencookie((void *)(intptr_t)fd, mode, calls);
    if (stream != NULL)
        stream->_fileno = fd;
    return stream;
}

FILE *fan_stream_stdin(void)
{
    const struct fan_file *file = fan_file_get(0);
    return file != NULL && file->kind == FAN_FILE_REGULAR ? make_stream(0, "r") : NULL;
}

/* open(2)'s flags for fopen(3)'s mode. -EINVAL. */
static int parse_mode(const char *mode)
{
    int access = strchr(mode, '+') != NULL ? O_RDWR : mode[0] == 'r' ? O_RDONLY : O_WRONLY;
    int extra = mode[0] == 'r' ? 0 : mode[0] == 'w' ? O_CREAT | O_TRUNC : O_CREAT | O_APPEND;
    if (mode[0] != 'r' && mode[0] != 'w' && mode[0] != 'a')
        return -EINVAL;
    if (strchr(mode, 'e') != NULL)
        extra |= O_CLOEXEC;
    if (strchr(mode, 'x') != NULL)
        extra |= O_EXCL;
    return access | extra;
}

static FILE *open_stream(const struct fan_target *target, const char *mode)
{
    int flags = parse_mode(mode);
    int fd = flags < 0 ? flags : fan_open(target, flags);
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    FILE *stream = fdopen(fd, mode);
    if (stream == NULL)
        close(fd);
    return stream;
}

static bool locate_for(const char *mode, const char *path, struct fan_target *target)
{
    return mode[0] == 'r' ? fan_locate(AT_FDCWD, path, 0, target)
                          : fan_locate_change(AT_FDCWD, path, 0, target);
}

FAN_EXPORT FILE *fopen(const char *path, const char *mode)
{
    struct fan_target target;
    if (locate_for(mode, path, &target))
        return open_stream(&target, mode);
    FILE *stream = REAL(fopen)(target.path, mode);
    if (stream == NULL && errno == ENOENT && fan_relocate(AT_FDCWD, path, 0, &target))
        return open_stream(&target, mode);
    return stream;
}

FAN_ALIAS(fopen64, fopen);

FAN_EXPORT FILE *fdopen(int fd, const char *mode)
{
    const struct fan_file *file = fan_file_get(fd);
    if (file == NULL || file->kind != FAN_FILE_REGULAR)
        return REAL(fdopen)(fd, mode);
    int flags = parse_mode(mode);
    if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY) {
        errno = EINVAL; /* the mode is not one that the descriptor allows */
        return NULL;
    }
    return make_stream(fd, mode);
}

static bool is_ours(FILE *stream)
{
    const struct fan_file *file = fan_file_get(stream->_fileno);
    return file != NULL && file->kind == FAN_FILE_REGULAR;
}

/* A real file with the content of ours, for a stream of libc's own. A descriptor or -errno. */
static int real_copy(const struct fan_target *target)
{
    int from = fan_open(target, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return from;
    int to = memfd_create("fanstore-copy", MFD_CLOEXEC);
    ssize_t moved = to < 0 ? -1 : 1;
    while (moved > 0)
        moved = sendfile(to, from, NULL, 1 << 30);
    close(from);
    if (moved == 0 && lseek(to, 0, SEEK_SET) == 0)
        return to;
    int error = errno;
    if (to >= 0)
        close(to);
    return -error;
}

/* A stream of libc's own is to show a file of ours: it is given a real copy. */
static FILE *reopen_native(const struct fan_target *target, const char *mode, FILE *stream)
{
    int flags = parse_mode(mode);
    int refused = flags < 0 ? flags : (flags & O_ACCMODE) != O_RDONLY ? fan_open(target, flags) : 0;
    int copy = refused < 0 ? refused : real_copy(target);
    if (copy < 0) {
        fclose(stream);
        errno = -copy;
        return NULL;
    }
    char path[40];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", copy);
    stream = REAL(freopen)(path, mode, stream);
    close(copy);
    return stream;
}

/* A cookie stream stays one: the descriptor below it is exchanged. */
static FILE *reopen_cookie(const char *path, const char *mode, FILE *stream)
{
    int flags = parse_mode(mode);
    int fd = -1;
    errno = EINVAL;
    if (flags >= 0 && path != NULL && (flags & O_ACCMODE) == O_RDONLY)
        fd = open(path, flags);
    if (fd < 0 || dup2(fd, stream->_fileno) < 0) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        fclose(stream);
        errno = error;
        return NULL;
    }
    close(fd);
    __fpurge(stream);
    clearerr(stream);
    return stream;
}

FAN_EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    struct fan_target target;
    if (is_ours(stream))
        return reopen_cookie(path, mode, stream);
    if (path == NULL || !locate_for(mode, path, &target))
        return REAL(freopen)(path, mode, stream);
    return reopen_native(&target, mode, stream);
}

FAN_ALIAS(freopen64, freopen);
