#include "rename.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>

static int plain(const char *from, const char *to)
{
    return rename(from, to) == 0 ? 0 : -errno;
}

/* Exchanges two names in three renames, for file systems without renameat2's flags. Between two of
 * them nothing has the name `to`. */
static int exchange_in_steps(const char *from, const char *to)
{
    char aside[PATH_MAX];
    if (snprintf(aside, sizeof(aside), "%s.old", from) >= (int)sizeof(aside))
        return -ENAMETOOLONG;
    int rc = plain(to, aside);
    if (rc != 0)
        return rc;
    rc = plain(from, to);
    if (rc == 0)
        return plain(aside, from);
    plain(aside, to);
    return rc;
}

static int rename_if_free(const char *from, const char *to)
{
    struct stat st;
    return lstat(to, &st) == 0 ? -EEXIST : plain(from, to);
}

int fan_rename(const char *from, const char *to, int exchange)
{
    unsigned flags = exchange ? RENAME_EXCHANGE : RENAME_NOREPLACE;
    if (renameat2(AT_FDCWD, from, AT_FDCWD, to, flags) == 0)
        return 0;
    bool unsupported = errno == EINVAL || errno == ENOSYS || errno == ENOTSUP;
    if (!unsupported)
        return -errno;
    return exchange ? exchange_in_steps(from, to) : rename_if_free(from, to);
}

void fan_start_writeback(int fd, uint64_t offset, uint64_t bytes)
{
    (void)sync_file_range(fd, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
}
