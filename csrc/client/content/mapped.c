#include "mapped.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/sys.h"
#include "../job/job.h"
#include "../machine/page.h"
#include "mapping.h"

enum { LINE_BYTES = 4200 }; /* a line of /proc/self/maps with a path of PATH_MAX */

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

/* Looks for an address in a line, "first-end rwxp offset device inode path". Whether it is there,
 * and in *ours whether the path is one of ours. */
static bool look(const char *line, uintptr_t address, bool *ours)
{
    char *at;
    uintptr_t first = strtoul(line, &at, 16), end = strtoul(at + (*at == '-'), &at, 16);
    if (address < first || address >= end)
        return false;
    const char *path = strchr(at, '/');
    *ours = path != NULL && is_ours(path);
    return true;
}

bool fan_mapped_at(const void *address)
{
    char text[LINE_BYTES];
    bool seen = false, ours = false;
    size_t have = 0;
    if (!fan_mmap_was_made())
        return false;
    int fd = fan_sys_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    while (fd >= 0 && !seen) {
        long got = FAN_SYS(read, fd, text + have, LINE_BYTES - 1 - have);
        if (got <= 0)
            break;
        text[have + (size_t)got] = '\0';
        char *line = text;
        for (char *end; !seen && (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            seen = look(line, (uintptr_t)address, &ours);
        }
        have = strlen(line); /* of a line that goes on with the next read */
        memmove(text, line, have);
    }
    if (fd >= 0)
        fan_sys_close(fd);
    return ours;
}

bool fan_mapped_grows(const void *address, size_t old_bytes, size_t bytes)
{
    size_t page = fan_page_bytes();
    return (bytes + page - 1) / page > (old_bytes + page - 1) / page && fan_mapped_at(address);
}
