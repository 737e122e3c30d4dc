/* Opens and closes streams over files of a mount (cookie.h), and over outputs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "../../client/content/content_io.h"
#include "../../client/files/filetable.h"
#include "../../client/open/open.h"
#include "../../client/content/realcopy.h"
#include "../../common/descriptor.h"
#include "../cancel.h"
#include "../files/cookie.h"
#include "../log.h"
#include "../real.h"

/* Returns open(2)'s flags for a mode of fopen(3), or -EINVAL. */
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

enum { MODE_BYTES = 64 };

/* Makes a real file with the content of an input, at a path that libc can open in `mode`; for an
 * output, the path of the output itself. Returns a descriptor, which must stay open while the path
 * is used, or -errno. */
static int open_real(struct fan_target *target, const char *mode, char path[FAN_FD_LINK_BYTES])
{
    int flags = parse_mode(mode);
    bool input = target->where == FAN_INPUT && (flags & O_ACCMODE) == O_RDONLY;
    int fd = flags < 0 ? flags : input ? fan_open_copy(target) : fan_open(target, flags, 0666);
    const struct fan_file *file = fd >= 0 ? fan_file_get(fd) : NULL;
    if (file != NULL && file->kind == FAN_FILE_REGULAR) { /* an output link led to an input */
        int copy = fan_real_copy(fan_file_get(fd));
        fan_close_quietly(fd);
        fd = copy;
    }
    if (fd >= 0)
        fan_fd_link(fd, path);
    return fd;
}

/* Writes the mode for opening a file that exists by now: without "x". */
static void without_exclusive(const char *mode, char plain[MODE_BYTES])
{
    size_t n = 0;
    bool in_charset = false;
    for (; *mode != '\0' && n + 1 < MODE_BYTES; mode++) {
        in_charset = in_charset || *mode == ',';
        if (*mode != 'x' || in_charset)
            plain[n++] = *mode;
    }
    plain[n] = '\0';
}

/* Records the descriptor of a stream that libc opened over the real file `fd` in place of `fd`, and
 * closes `fd`. */
static FILE *take_over(FILE *stream, int fd)
{
    int error = errno;
    struct fan_file *file = fan_file_get(fd);
    if (stream != NULL && file != NULL)
        fan_file_share(stream->_fileno, file);
    fan_close_quietly(fd);
    errno = error;
    return stream;
}

/* Opens a stream that converts characters, which libc does only in its own streams. */
static FILE *open_converted(struct fan_target *target, const char *mode)
{
    char path[FAN_FD_LINK_BYTES], plain[MODE_BYTES];
    int fd = open_real(target, mode, path);
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    without_exclusive(mode, plain);
    bool held = fan_cancel_hold(); /* libc's open of the real file is a cancellation point */
    FILE *stream = take_over(REAL(fopen)(path, plain), fd);
    fan_cancel_end(held);
    return stream;
}

static FILE *open_stream(struct fan_target *target, const char *mode)
{
    int flags = parse_mode(mode);
    fan_cancel_point();
    if (strstr(mode, ",ccs=") != NULL)
        return open_converted(target, mode);
    int fd = flags < 0 ? flags : fan_open(target, flags, 0666);
    if (fd < 0) {
        errno = -fd;
        return NULL;
    }
    if ((flags & O_APPEND) && (flags & O_ACCMODE) == O_WRONLY)
        lseek(fd, 0, SEEK_END); /* fopen does this; fdopen does not */
    FILE *stream = fdopen(fd, mode);
    if (stream == NULL)
        fan_close_quietly(fd);
    return stream;
}

static unsigned resolve_for(const char *mode)
{
    int flags = parse_mode(mode);
    return fan_open_resolve(flags < 0 ? O_RDONLY : flags);
}

/* Forgets the number of a libc stream's descriptor, and tells the daemon when that is done: libc
 * opens, closes and replaces such descriptors without calling this library. */
static void forget_number(const FILE *stream)
{
    if (fan_job.view_count > 0 && stream != NULL && stream->_fileno >= 0)
        fan_file_remove(stream->_fileno);
}

FAN_EXPORT FILE *fopen(const char *path, const char *mode)
{
    struct fan_target target;
    unsigned how = resolve_for(mode);
    bool ours = fan_locate(AT_FDCWD, path, how, &target);
    ours = ours || target.where == FAN_TREE;
    FILE *stream = ours ? open_stream(&target, mode) : REAL(fopen)(target.path, mode);
    if (!ours && stream == NULL && errno == ENOENT &&
        fan_relocate(AT_FDCWD, path, how, &target)) {
        stream = target.where == FAN_OUTSIDE ? REAL(fopen)(target.path, mode)
                                             : open_stream(&target, mode);
    } else if (!ours) {
        forget_number(stream);
    }
    return fan_logged_pointer("fopen", path, &target, stream);
}

FAN_EXPORT int fclose(FILE *stream)
{
    if (!fan_stream_is_ours(stream))
        forget_number(stream);
    return REAL(fclose)(stream);
}

FAN_EXPORT FILE *fdopen(int fd, const char *mode)
{
    const struct fan_file *file = fan_file_get(fd);
    if (file == NULL || file->kind != FAN_FILE_REGULAR)
        return REAL(fdopen)(fd, mode);
    int flags = parse_mode(mode);
    if (flags < 0 || (flags & O_ACCMODE) != O_RDONLY) {
        errno = EINVAL; /* the descriptor does not allow the mode */
        return NULL;
    }
    return fan_stream_make(fd, mode);
}

/* Makes a stream of libc's own show a file of ours: a real copy, or the output. */
static FILE *reopen_native(struct fan_target *target, const char *mode, FILE *stream)
{
    char path[FAN_FD_LINK_BYTES], plain[MODE_BYTES];
    fan_cancel_point();
    int fd = open_real(target, mode, path);
    if (fd < 0) {
        fclose(stream);
        errno = -fd;
        return NULL;
    }
    forget_number(stream);
    without_exclusive(mode, plain);
    bool held = fan_cancel_hold();
    FILE *reopened = take_over(REAL(freopen)(path, plain, stream), fd);
    fan_cancel_end(held);
    return reopened;
}

enum { NO_READS = 4, NO_WRITES = 8 }; /* libc's flags of a stream */

/* Replaces the descriptor below a cookie stream, which stays one. */
static FILE *reopen_cookie(const char *path, const char *mode, FILE *stream)
{
    int flags = parse_mode(mode);
    int fd = -1;
    errno = EINVAL;
    fflush(stream);
    if (flags >= 0 && path != NULL)
        fd = open(path, flags, 0666);
    if (fd < 0 || dup2(fd, stream->_fileno) < 0) {
        int error = errno;
        if (fd >= 0)
            fan_close_quietly(fd);
        fclose(stream);
        errno = error;
        return NULL;
    }
    fan_close_quietly(fd);
    __fpurge(stream);
    clearerr(stream);
    stream->_flags &= ~(NO_READS | NO_WRITES);
    if ((flags & O_ACCMODE) != O_RDWR)
        stream->_flags |= (flags & O_ACCMODE) == O_RDONLY ? NO_WRITES : NO_READS;
    return stream;
}

/* Changes only the mode: the file stays, and so does the meaning of its number. */
static FILE *reopen_same(const char *mode, FILE *stream)
{
    int fd = stream->_fileno;
    struct fan_file *file = fan_file_get(fd);
    if (file != NULL && file->kind == FAN_FILE_OUTPUT) {
        FILE *same = REAL(freopen)(NULL, mode, stream);
        if (same == NULL)
            fan_file_remove(fd);
        return same;
    }
    forget_number(stream);
    return REAL(freopen)(NULL, mode, stream);
}

FAN_EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream)
{
    struct fan_target target;
    if (fan_stream_is_ours(stream))
        return reopen_cookie(path, mode, stream);
    if (path == NULL)
        return reopen_same(mode, stream);
    /* Closes the stream if it cannot be reopened, so there is no second try. */
    if (fan_locate(AT_FDCWD, path, resolve_for(mode) | FAN_THROUGH, &target) ||
        target.where == FAN_TREE)
        return reopen_native(&target, mode, stream);
    forget_number(stream);
    return REAL(freopen)(target.path, mode, stream);
}
