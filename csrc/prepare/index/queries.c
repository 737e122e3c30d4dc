#include "queries.h"

#include <errno.h>
#include <string.h>

#include "../../common/index.h"

enum { PATH_BYTES_MAX = 4096 };

static int attach(struct fan_index *index, const void *base, uint64_t bytes)
{
    struct fan_fault fault;
    return fan_index_attach(index, base, bytes, &fault);
}

int fan_core_index_check(const void *base, uint64_t bytes, const char **field, uint64_t *offset)
{
    struct fan_index index;
    struct fan_fault fault = {0};
    int rc = fan_index_attach(&index, base, bytes, &fault);
    *field = fault.field;
    *offset = fault.offset;
    return rc;
}

int64_t fan_core_index_lookup(const void *base, uint64_t bytes, const char *relpath,
                              uint64_t relpath_bytes)
{
    struct fan_index index;
    int rc = attach(&index, base, bytes);
    return rc != 0 ? rc : fan_index_lookup(&index, relpath, relpath_bytes);
}

/* Writes the part of a path behind `prefix`, in normal form, to `relpath`. Returns its length, or
 * -ENOENT. */
static int64_t below(const char *path, size_t bytes, const char *prefix, size_t prefix_bytes,
                     char relpath[PATH_BYTES_MAX])
{
    size_t length = 0;
    if (bytes >= PATH_BYTES_MAX || bytes <= prefix_bytes ||
        memcmp(path, prefix, prefix_bytes) != 0 || path[prefix_bytes] != '/')
        return -ENOENT;
    for (const char *at = path + prefix_bytes, *end = path + bytes; at < end;) {
        const char *slash = memchr(at, '/', (size_t)(end - at));
        size_t name_bytes = (size_t)((slash != NULL ? slash : end) - at);
        if (name_bytes == 2 && at[0] == '.' && at[1] == '.')
            return -ENOENT;
        if (name_bytes > 0 && !(name_bytes == 1 && at[0] == '.')) {
            if (length > 0)
                relpath[length++] = '/';
            memcpy(relpath + length, at, name_bytes);
            length += name_bytes;
        }
        at += name_bytes + (slash != NULL ? 1 : 0);
    }
    return (int64_t)length;
}

int64_t fan_core_index_lookup_all(const void *base, uint64_t bytes, const char *paths,
                                  uint64_t paths_bytes, const char *prefix, uint64_t prefix_bytes,
                                  uint64_t *ids, uint64_t count)
{
    struct fan_index index;
    char relpath[PATH_BYTES_MAX];
    const char *at = paths, *end = paths + paths_bytes;
    int64_t found = 0;
    if (attach(&index, base, bytes) != 0)
        return -EINVAL;
    for (uint64_t i = 0; i < count; i++) {
        const char *stop = at < end ? memchr(at, '\0', (size_t)(end - at)) : NULL;
        if (stop == NULL)
            return -EINVAL;
        int64_t length = below(at, (size_t)(stop - at), prefix, prefix_bytes, relpath);
        int64_t id = length < 0 ? length : fan_index_lookup(&index, relpath, (size_t)length);
        ids[i] = id < 0 ? UINT64_MAX : (uint64_t)id;
        found += id >= 0;
        at = stop + 1;
    }
    return at == end ? found : -EINVAL;
}

int64_t fan_core_index_path(const void *base, uint64_t bytes, uint64_t id, char *buffer,
                            uint64_t capacity)
{
    struct fan_index index;
    int rc = attach(&index, base, bytes);
    return rc != 0 ? rc : fan_index_path(&index, id, buffer, capacity);
}

int fan_core_index_children(const void *base, uint64_t bytes, uint64_t id, uint64_t *first,
                            uint64_t *count)
{
    struct fan_index index;
    int rc = attach(&index, base, bytes);
    return rc != 0 ? rc : fan_index_children(&index, id, first, count);
}
