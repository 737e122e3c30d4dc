#include "fresh.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../../common/number.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../machine/limits.h"
#include "../machine/spelling.h"
#include "job.h"

enum { NUMBERS_BYTES = 24 };

int fan_fresh_path(const char *name, char *to, size_t capacity)
{
    static atomic_uint count;
    const struct fan_text *job = &fan_job.directory;
    if (!fan_join(to, capacity - NUMBERS_BYTES, job->text, job->bytes, name))
        return -ENAMETOOLONG;
    char *at = to + strlen(to);
    *at++ = '.';
    at = fan_put_number(at, (unsigned)FAN_SYS(gettid));
    *at++ = '.';
    *fan_put_number(at, atomic_fetch_add(&count, 1)) = '\0';
    return 0;
}

int fan_fresh_link(const char *target, const char *name, int flags)
{
    FAN_OFF_STACK(struct fan_path, path);
    int rc = path == NULL ? -ENOMEM : -EEXIST;
    while (rc == -EEXIST) {
        rc = fan_fresh_path(name, path->text, sizeof(path->text));
        rc = rc == 0 ? (int)FAN_SYS(symlinkat, target, AT_FDCWD, path->text) : rc;
    }
    if (rc != 0)
        return rc;
    int fd = fan_sys_openat(AT_FDCWD, path->text, flags, 0);
    FAN_SYS(unlinkat, AT_FDCWD, path->text, 0);
    return fd;
}

void fan_job_note(const char *file, const char *line)
{
    enum { NOTES_BYTES_MAX = 64 << 10 };
    struct text {
        char bytes[2 * PATH_MAX];
    };
    FAN_OFF_STACK(struct text, room);
    /* Not where these calls may end the program: a filter, or a limit for files (SIGXFSZ). */
    if (room == NULL || fan_restricted() || !fan_file_limit_allows(2 * NOTES_BYTES_MAX))
        return;
    char *text = room->bytes;
    int length = snprintf(text, sizeof(*room), "%s/%s", fan_job.directory.text, file);
    if (length >= (int)sizeof(*room))
        return;
    int fd = fan_sys_openat(AT_FDCWD, text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    length = snprintf(text, sizeof(*room), "%s\n", line);
    if (fd >= 0 && length < (int)sizeof(*room) && FAN_SYS(lseek, fd, 0, SEEK_END) < NOTES_BYTES_MAX)
        FAN_SYS(write, fd, text, length);
    if (fd >= 0)
        fan_sys_close(fd);
}
