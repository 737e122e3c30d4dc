#include "mounts.h"

#include <errno.h>

#include "../../common/number.h"

struct fan_view *fan_code_begins(const char *path, const char **rest)
{
    static const char folder[] = FAN_CODE_FOLDER;
    const struct fan_text *job = &fan_job.directory;
    if (strncmp(path, job->text, job->bytes) != 0 ||
        strncmp(path + job->bytes, folder, sizeof(folder) - 1) != 0)
        return NULL;
    *rest = path + job->bytes + sizeof(folder) - 1;
    long number = fan_take_number(rest, (long)fan_job.view_count - 1);
    return number >= 0 ? &fan_job.views[number] : NULL;
}

struct fan_view *fan_code_match(const char *path, const char **rest)
{
    struct fan_view *view = fan_code_begins(path, rest);
    if (view == NULL || (**rest != '/' && **rest != '\0'))
        return NULL;
    while (**rest == '/')
        (*rest)++;
    return view;
}

struct fan_view *fan_outputs_match(const char *path, const char **rest)
{
    size_t bytes = strlen(path);
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        const struct fan_text *top = &fan_job.views[i].outputs;
        if (!fan_begins_with(path, bytes, top))
            continue;
        *rest = path + top->bytes;
        while (**rest == '/')
            (*rest)++;
        return &fan_job.views[i];
    }
    return NULL;
}

struct fan_view *fan_job_match(const char *path, const char **rest)
{
    if (strncmp(path, fan_job.directory.text, fan_job.directory.bytes) != 0)
        return NULL;
    struct fan_view *view = fan_code_match(path, rest);
    return view != NULL ? view : fan_outputs_match(path, rest);
}

struct fan_view *fan_match_prefix(const char *path, const char **rest)
{
    return fan_match_bytes(path, strlen(path), rest);
}

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

int64_t fan_path_below(const struct fan_text *top, const struct fan_dataset *dataset, uint64_t id,
                       char *buffer, size_t capacity)
{
    size_t start = top->bytes;
    if (start + 2 > capacity)
        return -ENAMETOOLONG;
    memcpy(buffer, top->text, start);
    if (id != 0)
        buffer[start++] = '/';
    int64_t length = fan_index_path(&dataset->index, id, buffer + start, capacity - start - 1);
    if (length < 0)
        return length == -ERANGE ? -ENAMETOOLONG : length;
    buffer[start + (size_t)length] = '\0';
    return (int64_t)start + length;
}

int64_t fan_full_path(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      char *buffer, size_t capacity)
{
    return fan_path_below(&view->prefix, dataset, id, buffer, capacity);
}
