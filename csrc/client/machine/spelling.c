#include "spelling.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>

#include "../../common/number.h"
#include "../../common/sys.h"

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Returns a word with the top bit set in each byte that equals `byte` in `word`. */
static uint64_t bytes_equal(uint64_t word, unsigned char byte)
{
    uint64_t other = word ^ EACH(byte), low = EACH(0x7f);
    return ~(((other & low) + low) | other | low);
}

/* Returns whether one of eight bytes is a slash with a slash or dot behind it. */
static bool odd_in_eight(const char *p)
{
    uint64_t word, next;
    memcpy(&word, p, sizeof(word));
    memcpy(&next, p + 1, sizeof(next));
    _Static_assert(('.' | 1) == '/', "one comparison finds both");
    return (bytes_equal(word, '/') & bytes_equal(next | EACH(1), '/')) != 0;
}

bool fan_has_odd_part(const char *path, size_t bytes)
{
    if (bytes < 8) {
        for (size_t i = 0; i < bytes; i++) {
            if (path[i] == '/' && (path[i + 1] == '/' || path[i + 1] == '.'))
                return true;
        }
        return false;
    }
    for (size_t i = 0; i + 8 < bytes; i += 8) {
        if (odd_in_eight(path + i))
            return true;
    }
    return odd_in_eight(path + bytes - 8);
}

bool fan_has_dot_dot(const char *path)
{
    if (path[0] != '.' && !fan_has_odd_part(path, strlen(path)))
        return false;
    for (const char *p = path; *p != '\0';) {
        const char *end = fan_component_end(p);
        if (fan_is_dot_dot(p, (size_t)(end - p)))
            return true;
        p = *end == '/' ? end + 1 : end;
    }
    return false;
}

bool fan_append_normal(const char *path, char *to, size_t *end, size_t capacity, bool *above)
{
    const size_t root = *end;
    size_t length = root;
    *above = false;
    while (*path != '\0') {
        while (*path == '/')
            path++;
        const char *end = fan_component_end(path);
        size_t bytes = (size_t)(end - path);
        if (fan_is_dot_dot(path, bytes)) {
            *above = *above || length == root;
            while (length > root && to[--length] != '/') {
            }
        } else if (bytes > 0 && !fan_is_dot(path, bytes)) {
            if (length + bytes + 2 > capacity)
                return false;
            to[length++] = '/';
            memcpy(to + length, path, bytes);
            length += bytes;
        }
        path = end;
    }
    to[length] = '\0';
    *end = length;
    return true;
}

int fan_normalise(const char *path, char *to, size_t capacity)
{
    size_t end = 0;
    bool above;
    return fan_append_normal(path, to, &end, capacity, &above) ? 0 : -1;
}

bool fan_join(char *to, size_t capacity, const char *head, size_t head_bytes, const char *tail)
{
    size_t tail_bytes = strlen(tail);
    if (head_bytes + tail_bytes + 2 > capacity)
        return false;
    memmove(to + head_bytes + 1, tail, tail_bytes + 1);
    memmove(to, head, head_bytes);
    to[head_bytes] = tail_bytes > 0 ? '/' : '\0';
    return true;
}

/* If *text begins with the word, moves *text past the word. */
static bool skip(const char **text, const char *word)
{
    size_t bytes = strlen(word);
    if (strncmp(*text, word, bytes) != 0)
        return false;
    *text += bytes;
    return true;
}

/* Moves *text, which is behind "/proc/", past a name of this process and "fd/". */
static bool skip_own(const char **text)
{
    if (!skip(text, "self/") && !skip(text, "thread-self/") &&
        (**text < '1' || **text > '9' || fan_take_number(text, INT_MAX) != FAN_SYS(getpid) ||
         !skip(text, "/")))
        return false;
    if (skip(text, "task/")) {
        long process = FAN_SYS(getpid);
        if (FAN_SYS(tgkill, process, fan_take_number(text, INT_MAX), 0) != 0 || !skip(text, "/"))
            return false;
    }
    return skip(text, "fd/");
}

int fan_proc_fd(const char *path)
{
    static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    const char *p = path;
    if (path[0] != '/' || (path[1] != 'p' && path[1] != 'd'))
        return -1;
    for (unsigned i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        if (strcmp(path, streams[i]) == 0)
            return (int)i;
    }
    if (!skip(&p, "/dev/fd/") && (!skip(&p, "/proc/") || !skip_own(&p)))
        return -1;
    long fd = fan_take_number(&p, INT_MAX);
    return fd >= 0 && *p == '\0' ? (int)fd : -1;
}
