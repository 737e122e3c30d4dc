/*
 * Wide characters into streams of ours, which have no wide side (wrap_wide.c): into one that
 * freopen gave a file to write, or to be refused.
 */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <wchar.h>

#include "cancel.h"
#include "real.h"
#include "streams.h"
#include "undeclared.h"

static wint_t encode(wchar_t wide, FILE *stream)
{
    char narrow[MB_LEN_MAX];
    mbstate_t state = {0};
    size_t bytes = wcrtomb(narrow, wide, &state);
    if (bytes == (size_t)-1)
        return WEOF;
    for (size_t i = 0; i < bytes; i++) {
        if (putc_unlocked(narrow[i], stream) == EOF)
            return WEOF;
    }
    return (wint_t)wide;
}

FAN_EXPORT wint_t fputwc_unlocked(wchar_t wide, FILE *stream)
{
    return fan_stream_is_ours(stream) ? encode(wide, stream)
                                      : REAL(fputwc_unlocked)(wide, stream);
}

FAN_EXPORT wint_t fputwc(wchar_t wide, FILE *stream)
{
    if (!fan_stream_is_ours(stream))
        return REAL(fputwc)(wide, stream);
    bool held = fan_cancel_enter();
    flockfile(stream);
    wint_t put = encode(wide, stream);
    funlockfile(stream);
    fan_cancel_end(held);
    return put;
}

FAN_ALIAS(putwc, fputwc);
FAN_ALIAS(putwc_unlocked, fputwc_unlocked);

FAN_EXPORT int fputws_unlocked(const wchar_t *text, FILE *stream)
{
    if (!fan_stream_is_ours(stream))
        return REAL(fputws_unlocked)(text, stream);
    for (; *text != L'\0'; text++) {
        if (encode(*text, stream) == WEOF)
            return -1;
    }
    return 1;
}

FAN_EXPORT int fputws(const wchar_t *text, FILE *stream)
{
    if (!fan_stream_is_ours(stream))
        return REAL(fputws)(text, stream);
    bool held = fan_cancel_enter();
    flockfile(stream);
    int put = fputws_unlocked(text, stream);
    funlockfile(stream);
    fan_cancel_end(held);
    return put;
}

static int print(FILE *stream, const wchar_t *format, va_list list)
{
    wchar_t *text = NULL;
    size_t length;
    FILE *memory = open_wmemstream(&text, &length);
    if (memory == NULL)
        return -1;
    int printed = REAL(vfwprintf)(memory, format, list);
    if (fclose(memory) != 0 || (printed >= 0 && fputws(text, stream) < 0))
        printed = -1;
    free(text);
    return printed;
}

FAN_EXPORT int vfwprintf(FILE *stream, const wchar_t *format, va_list list)
{
    if (!fan_stream_is_ours(stream))
        return REAL(vfwprintf)(stream, format, list);
    bool held = fan_cancel_enter();
    int printed = print(stream, format, list);
    fan_cancel_end(held);
    return printed;
}

/* libc's own flag for a format that may be written to is its own. */
FAN_EXPORT int __vfwprintf_chk(FILE *stream, int flag, const wchar_t *format, va_list list)
{
    return fan_stream_is_ours(stream) ? vfwprintf(stream, format, list)
                                      : REAL(__vfwprintf_chk)(stream, flag, format, list);
}

FAN_EXPORT int fwprintf(FILE *stream, const wchar_t *format, ...)
{
    va_list list;
    va_start(list, format);
    int printed = vfwprintf(stream, format, list);
    va_end(list);
    return printed;
}

FAN_EXPORT int __fwprintf_chk(FILE *stream, int flag, const wchar_t *format, ...)
{
    va_list list;
    va_start(list, format);
    int printed = __vfwprintf_chk(stream, flag, format, list);
    va_end(list);
    return printed;
}
