#include "maps.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/sys.h"

/* Returns the path in a line, "first-end rwxp offset device inode path", if the address lies in
 * that mapping. */
static const char *path_in(const char *line, uintptr_t address)
{
    char *at;
    uintptr_t first = strtoul(line, &at, 16), end = strtoul(at + (*at == '-'), &at, 16);
    if (address < first || address >= end)
        return NULL;
    return strchrnul(at, '/');
}

const char *fan_maps_path(const void *address, char line[FAN_MAPS_LINE_BYTES])
{
    const char *path = NULL;
    size_t have = 0;
    int fd = fan_sys_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    while (fd >= 0 && path == NULL) {
        long got = FAN_SYS(read, fd, line + have, FAN_MAPS_LINE_BYTES - 1 - have);
        if (got <= 0)
            break;
        line[have + (size_t)got] = '\0';
        char *at = line;
        for (char *end; path == NULL && (end = strchr(at, '\n')) != NULL; at = end + 1) {
            *end = '\0';
            path = path_in(at, (uintptr_t)address);
        }
        if (path == NULL) {
            have = strlen(at); /* the beginning of a line, which the next read continues */
            memmove(line, at, have);
        }
    }
    if (fd >= 0)
        fan_sys_close(fd);
    return path;
}
