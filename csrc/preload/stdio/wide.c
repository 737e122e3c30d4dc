/*
 * Wide characters from streams of ours. libc has no wide buffer for a cookie stream, so characters
 * and lines are decoded here from its bytes. Other calls for wide characters fail on such a stream.
 */
#include <wchar.h>

#include "../cancel.h"
#include "../files/cookie.h"
#include "../real.h"

enum { ERROR_SEEN = 0x20 }; /* libc's flag of a stream */

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
