/*
 * Wide characters from streams of ours. libc keeps no wide side for a cookie stream, so characters
 * are decoded here from its bytes; formatted input reads from a real copy of what is left.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <wchar.h>

#include "cancel.h"
#include "real.h"
#include "streams.h"
#include "undeclared.h"

enum { END_SEEN = 0x10, ERROR_SEEN = 0x20 }; /* libc's flags of a stream */

static wint_t bad_bytes(FILE *stream)
{
    stream->_flags |= ERROR_SEEN;
    errno = EILSEQ;
    return WEOF;
}

static wint_t decode(FILE *stream)
{
    mbstate_t state = {0};
    for (;;) {
        int byte = getc_unlocked(stream);
        if (byte == EOF)
            return mbsinit(&state) ? WEOF : bad_bytes(stream);
        wchar_t wide = L'\0';
        char narrow = (char)byte;
        size_t got = mbrtowc(&wide, &narrow, 1, &state);
        if (got == (size_t)-1)
            return bad_bytes(stream);
        if (got != (size_t)-2)
            return (wint_t)wide;
    }
}

FAN_EXPORT wint_t fgetwc_unlocked(FILE *stream)
{
    return fan_stream_is_ours(stream) ? decode(stream) : REAL(fgetwc_unlocked)(stream);
}

FAN_EXPORT wint_t fgetwc(FILE *stream)
{
    if (!fan_stream_is_ours(stream))
        return REAL(fgetwc)(stream);
    bool held = fan_cancel_enter();
    flockfile(stream);
    wint_t got = decode(stream);
    funlockfile(stream);
    fan_cancel_end(held);
    return got;
}

FAN_EXPORT wint_t getwchar(void)
{
    return fgetwc(stdin);
}

FAN_EXPORT wint_t getwchar_unlocked(void)
{
    return fgetwc_unlocked(stdin);
}

FAN_ALIAS(getwc, fgetwc);
FAN_ALIAS(getwc_unlocked, fgetwc_unlocked);

static wchar_t *decode_line(wchar_t *line, int room, FILE *stream)
{
    int length = 0;
    if (room <= 0)
        return NULL;
    while (length + 1 < room) {
        wint_t got = decode(stream);
        if (got == WEOF && (length == 0 || (stream->_flags & ERROR_SEEN)))
            return NULL;
        if (got == WEOF)
            break;
        line[length++] = (wchar_t)got;
        if (got == L'\n')
            break;
    }
    line[length] = L'\0';
    return line;
}

FAN_EXPORT wchar_t *fgetws_unlocked(wchar_t *line, int room, FILE *stream)
{
    return fan_stream_is_ours(stream) ? decode_line(line, room, stream)
                                      : REAL(fgetws_unlocked)(line, room, stream);
}

FAN_EXPORT wchar_t *fgetws(wchar_t *line, int room, FILE *stream)
{
    if (!fan_stream_is_ours(stream))
        return REAL(fgetws)(line, room, stream);
    bool held = fan_cancel_enter();
    flockfile(stream);
    wchar_t *got = decode_line(line, room, stream);
    funlockfile(stream);
    fan_cancel_end(held);
    return got;
}

FAN_EXPORT wchar_t *__fgetws_chk(wchar_t *line, size_t bytes, int room, FILE *stream)
{
    if (room > 0 && (size_t)room > bytes)
        __chk_fail();
    return fgetws(line, room, stream);
}

FAN_EXPORT wchar_t *__fgetws_unlocked_chk(wchar_t *line, size_t bytes, int room, FILE *stream)
{
    if (room > 0 && (size_t)room > bytes)
        __chk_fail();
    return fgetws_unlocked(line, room, stream);
}

FAN_EXPORT wint_t ungetwc(wint_t wide, FILE *stream)
{
    char narrow[16];
    mbstate_t state = {0};
    if (!fan_stream_is_ours(stream))
        return REAL(ungetwc)(wide, stream);
    size_t bytes = wide == WEOF ? (size_t)-1 : wcrtomb(narrow, (wchar_t)wide, &state);
    if (bytes == (size_t)-1)
        return WEOF;
    while (bytes > 0) {
        if (ungetc((unsigned char)narrow[--bytes], stream) == EOF)
            return WEOF;
    }
    return wide;
}

/* Such a stream has no orientation of its own: it is what is asked for. */
FAN_EXPORT int fwide(FILE *stream, int mode)
{
    return fan_stream_is_ours(stream) ? (mode > 0) - (mode < 0) : REAL(fwide)(stream, mode);
}

/* A stream of libc's over a copy of up to `bytes` from `offset` on. `whole`: nothing was left out. */
static FILE *copy_of_rest(FILE *stream, off_t offset, size_t bytes, bool *whole)
{
    int to = memfd_create("fanstore-copy", MFD_CLOEXEC);
    char *piece = malloc(bytes);
    ssize_t got = to >= 0 && piece != NULL ? pread(stream->_fileno, piece, bytes, offset) : -1;
    if (got >= 0 && pwrite(to, piece, (size_t)got, 0) != got)
        got = -1;
    free(piece);
    *whole = got >= 0 && (size_t)got < bytes;
    FILE *copy = got >= 0 ? fdopen(to, "r") : NULL;
    if (copy == NULL && to >= 0)
        close(to);
    return copy;
}

typedef int scan_fn(FILE *, const wchar_t *, va_list);

/* A scan that ran into the end of a part is done again over more of the file. */
static int scan_copies(FILE *stream, const wchar_t *format, va_list list, scan_fn *real)
{
    off_t offset = ftello(stream);
    bool whole = false;
    for (size_t bytes = 1 << 16; offset >= 0; bytes *= 16) {
        va_list again;
        FILE *copy = copy_of_rest(stream, offset, bytes, &whole);
        if (copy == NULL)
            return EOF;
        va_copy(again, list);
        int got = real(copy, format, again);
        va_end(again);
        bool end = feof(copy) != 0;
        off_t used = ftello(copy);
        fclose(copy);
        if (end && !whole)
            continue;
        fseeko(stream, offset + used, SEEK_SET);
        if (end)
            stream->_flags |= END_SEEN;
        return got;
    }
    return EOF;
}

static int scan(FILE *stream, const wchar_t *format, va_list list, scan_fn *real)
{
    bool held = fan_cancel_enter();
    int got = scan_copies(stream, format, list, real);
    fan_cancel_end(held);
    return got;
}

/* The family exists once for each standard of C. A libc without the newest has no program that calls
 * it. */
#define SCAN_LIST(stream, format, call)                                                            \
    va_list list;                                                                                  \
    va_start(list, format);                                                                        \
    int got = call(stream, format, list);                                                          \
    va_end(list);                                                                                  \
    return got

#define SCAN_FAMILY(prefix)                                                                        \
    FAN_EXPORT int prefix##_vfwscanf(FILE *stream, const wchar_t *format, va_list list)            \
    {                                                                                              \
        return fan_stream_is_ours(stream) ? scan(stream, format, list, REAL(prefix##_vfwscanf))    \
                                          : REAL(prefix##_vfwscanf)(stream, format, list);         \
    }                                                                                              \
    FAN_EXPORT int prefix##_fwscanf(FILE *stream, const wchar_t *format, ...)                      \
    {                                                                                              \
        SCAN_LIST(stream, format, prefix##_vfwscanf);                                              \
    }                                                                                              \
    FAN_EXPORT int prefix##_wscanf(const wchar_t *format, ...)                                     \
    {                                                                                              \
        SCAN_LIST(stdin, format, prefix##_vfwscanf);                                               \
    }                                                                                              \
    FAN_EXPORT int prefix##_vwscanf(const wchar_t *format, va_list list)                           \
    {                                                                                              \
        return prefix##_vfwscanf(stdin, format, list);                                             \
    }

SCAN_FAMILY(__isoc99)
SCAN_FAMILY(__isoc23)

/* The oldest family, which <wchar.h> gives to programs of C90 alone: its names mean the newer calls
 * here. */
int fan_old_vfwscanf(FILE *stream, const wchar_t *format, va_list list) __asm__("vfwscanf");
int fan_old_vwscanf(const wchar_t *format, va_list list) __asm__("vwscanf");
int fan_old_fwscanf(FILE *stream, const wchar_t *format, ...) __asm__("fwscanf");
int fan_old_wscanf(const wchar_t *format, ...) __asm__("wscanf");

FAN_EXPORT int fan_old_vfwscanf(FILE *stream, const wchar_t *format, va_list list)
{
    return fan_stream_is_ours(stream) ? scan(stream, format, list, REAL(vfwscanf))
                                      : REAL(vfwscanf)(stream, format, list);
}

FAN_EXPORT int fan_old_vwscanf(const wchar_t *format, va_list list)
{
    return fan_old_vfwscanf(stdin, format, list);
}

FAN_EXPORT int fan_old_fwscanf(FILE *stream, const wchar_t *format, ...)
{
    SCAN_LIST(stream, format, fan_old_vfwscanf);
}

FAN_EXPORT int fan_old_wscanf(const wchar_t *format, ...)
{
    SCAN_LIST(stdin, format, fan_old_vfwscanf);
}
