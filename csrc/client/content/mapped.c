#include "mapped.h"

#include <string.h>

#include "../job/job.h"
#include "../machine/maps.h"
#include "../machine/page.h"
#include "mapping.h"

static bool begins_with(const char *path, const char *head, size_t bytes)
{
    return strncmp(path, head, bytes) == 0;
}

static bool is_ours(const char *path)
{
    static const char copy[] = "/memfd:" FAN_MAP_COPY, pack[] = "/pack-";
    bool ours = begins_with(path, copy, sizeof(copy) - 1);
    for (unsigned i = 0; i < fan_job.view_count && !ours; i++) {
        const struct fan_text *packs = &fan_job.views[i].staged_dir;
        ours = begins_with(path, packs->text, packs->bytes) &&
               begins_with(path + packs->bytes, pack, sizeof(pack) - 1);
    }
    return ours;
}

bool fan_mapped_at(const void *address)
{
    char line[FAN_MAPS_LINE_BYTES];
    const char *path = fan_mmap_was_made() ? fan_maps_path(address, line) : NULL;
    return path != NULL && is_ours(path);
}

bool fan_mapped_grows(const void *address, size_t old_bytes, size_t bytes)
{
    size_t page = fan_page_bytes();
    return (bytes + page - 1) / page > (old_bytes + page - 1) / page && fan_mapped_at(address);
}
