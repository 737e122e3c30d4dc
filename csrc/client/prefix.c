/* Mount prefixes and the paths below them (resolve.h): what is not needed for each path. */
#include <errno.h>
#include <string.h>

#include "resolve.h"
#include "spelling.h"

size_t fan_match_above(const char *path, struct fan_view **view)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        const struct fan_text *prefix = &fan_job.views[i].prefix;
        if (length < prefix->bytes && memcmp(path, prefix->text, length) == 0 &&
            prefix->text[length] == '/') {
            *view = &fan_job.views[i];
            return length > 0 ? length : 1;
        }
    }
    return 0;
}

int64_t fan_full_path(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      char *buffer, size_t capacity)
{
    size_t start = view->prefix.bytes;
    if (start + 2 > capacity)
        return -ENAMETOOLONG;
    memcpy(buffer, view->prefix.text, start);
    if (id != 0)
        buffer[start++] = '/';
    int64_t length = fan_index_path(&dataset->index, id, buffer + start, capacity - start - 1);
    if (length < 0)
        return length == -ERANGE ? -ENAMETOOLONG : length;
    buffer[start + (size_t)length] = '\0';
    return (int64_t)start + length;
}

int64_t fan_target_path(const struct fan_target *target, char *buffer, size_t capacity)
{
    const struct fan_text *prefix = &target->view->prefix;
    if (target->where == FAN_INPUT)
        return fan_full_path(target->view, target->dataset, target->id, buffer, capacity);
    if (target->where != FAN_OUTPUT)
        return -target->error;
    bool fits = fan_join(buffer, capacity, prefix->text, prefix->bytes, target->path);
    return fits ? (int64_t)strlen(buffer) : -ENAMETOOLONG;
}
