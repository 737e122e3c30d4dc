#include "paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t path_bytes(const struct fan_scan_entry *entries, uint64_t id)
{
    uint64_t bytes = 0;
    for (uint64_t at = id; at != 0; at = entries[at].parent)
        bytes += entries[at].name_bytes + 1;
    return bytes > 0 ? bytes - 1 : 0;
}

/* Writes one path from its last component to its first, so that it ends before `end`. */
static void write_path(const struct fan_scan_entry *entries, const char *names, uint64_t id,
                       char *end)
{
    for (uint64_t at = id; at != 0; at = entries[at].parent) {
        end -= entries[at].name_bytes;
        memcpy(end, names + entries[at].name_offset, entries[at].name_bytes);
        if (entries[at].parent != 0)
            *--end = '/';
    }
}

int64_t fan_scan_path(const struct fan_scan_entry *entries, const char *names, uint64_t id,
                      char **path, uint64_t *room)
{
    uint64_t bytes = path_bytes(entries, id);
    if (bytes + 1 > *room) {
        char *moved = realloc(*path, 2 * bytes + 1);
        if (moved == NULL)
            return -ENOMEM;
        *path = moved;
        *room = 2 * bytes + 1;
    }
    write_path(entries, names, id, *path + bytes);
    (*path)[bytes] = '\0';
    return (int64_t)bytes;
}

uint64_t fan_paths_measure(const struct fan_scan_entry *entries, const uint64_t *ids,
                           uint64_t count, uint64_t *lengths)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++)
        sum += lengths[i] = path_bytes(entries, ids[i]);
    return sum;
}

void fan_paths_join(const struct fan_scan_entry *entries, const char *names, const uint64_t *ids,
                    uint64_t count, const uint64_t *lengths, char *joined)
{
    for (uint64_t i = 0; i < count; i++) {
        joined += lengths[i];
        write_path(entries, names, ids[i], joined);
    }
}
