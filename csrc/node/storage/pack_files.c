#include "pack_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int fan_map_file(int fd, int protection, uint64_t *bytes, char **base)
{
    struct stat st;
    if (fd < 0)
        return fd;
    int rc = fstat(fd, &st) == 0 ? 0 : -errno;
    if (rc == 0 && (st.st_size <= 0 || (*bytes != 0 && (uint64_t)st.st_size != *bytes)))
        rc = -EINVAL;
    if (rc == 0) {
        *bytes = (uint64_t)st.st_size;
        *base = mmap(NULL, *bytes, protection, MAP_SHARED, fd, 0);
        if (*base == MAP_FAILED) {
            *base = NULL;
            rc = -errno;
        }
    }
    close(fd);
    return rc;
}

int fan_open_file(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int fan_pack_path(const char *dir, uint32_t pack, char path[PATH_MAX])
{
    int bytes = snprintf(path, PATH_MAX, "%s/pack-%05u.fsp", dir, pack);
    return bytes < PATH_MAX ? 0 : -ENAMETOOLONG;
}
