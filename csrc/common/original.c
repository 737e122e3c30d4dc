#include "original.h"

#include <errno.h>
#include <string.h>

/* Mixes a number with the finalizer of SplitMix64: each bit of the input changes half of the
 * output's bits. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t fan_file_state(uint64_t size, int64_t mtime_ns, int64_t ctime_ns)
{
    uint64_t state = mix(size + UINT64_C(0x9e3779b97f4a7c15));
    state = mix(state ^ (uint64_t)mtime_ns);
    state = mix(state ^ (uint64_t)ctime_ns);
    return state != 0 ? state : 1;
}

static int64_t ns_of(struct timespec time)
{
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

uint64_t fan_stat_state(const struct stat *st)
{
    return fan_file_state((uint64_t)st->st_size, ns_of(st->st_mtim), ns_of(st->st_ctim));
}

int fan_original_path(const struct fan_index *index, const char *source, uint64_t id,
                      char path[PATH_MAX])
{
    size_t start = strlen(source);
    if (start + 2 > PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(path, source, start);
    path[start++] = '/';
    int64_t length = fan_index_path(index, id, path + start, PATH_MAX - 1 - start);
    if (length < 0)
        return length == -ERANGE ? -ENAMETOOLONG : (int)length;
    path[start + (size_t)length] = '\0';
    return 0;
}
