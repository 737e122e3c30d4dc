#include "objects.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../common/sys.h"
#include "../machine/park.h"
#include "../machine/spelling.h"
#include "../machine/vfork.h"
#include "job.h"
#include "known.h"

enum { HEX_DIGITS = 16 };

static const char objects[] = "objects/";

static char *put_hex(char *at, uint64_t number)
{
    unsigned shift = HEX_DIGITS * 4;
    do
        shift -= 4;
    while (shift > 0 && number >> shift == 0);
    for (;; shift -= 4) {
        *at++ = "0123456789abcdef"[number >> shift & 15];
        if (shift == 0)
            return at;
    }
}

bool fan_output_object_path(uint64_t object, char text[FAN_OUTPUT_PATH_MAX])
{
    const size_t room = FAN_OUTPUT_PATH_MAX - 2 * HEX_DIGITS - 1;
    struct fan_names names;
    const struct fan_text *job = &fan_job.directory;
    if (!fan_job_names(&names) || object >> FAN_OBJECT_RANK_SHIFT != names.header->rank ||
        !fan_join(text, room, job->text, job->bytes, objects))
        return false;
    uint64_t folder =
        (object >> FAN_OBJECT_FOLDER_SHIFT) * FAN_OBJECT_LANES + object % FAN_OBJECT_LANES;
    char *at = put_hex(text + strlen(text), folder);
    *at++ = '/';
    *put_hex(at, object) = '\0';
    return true;
}

/* A parked descriptor of the directory of objects, `top`. Below 0: there can be none. */
static int directory_of(char *top, size_t bytes)
{
    static atomic_int holder;
    int fd = fan_parked(&holder);
    if (fd >= 0 || fan_in_vfork_child())
        return fd;
    char first = top[bytes];
    top[bytes] = '\0';
    fd = fan_sys_openat(AT_FDCWD, top, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    top[bytes] = first;
    return fd < 0 ? fd : fan_park(fd, &holder);
}

/* The kernel need not look for the job directory each time. -EBADF: by the whole path. */
static int open_below(char *file, int flags, unsigned mode)
{
    const struct fan_text *job = &fan_job.directory;
    size_t start = job->bytes + 1, bytes = start + sizeof(objects) - 1;
    if (strncmp(file, job->text, job->bytes) != 0 || file[job->bytes] != '/' ||
        strncmp(file + start, objects, sizeof(objects) - 1) != 0)
        return -EBADF;
    int top = directory_of(file, bytes);
    return top < 0 ? -EBADF : fan_sys_openat(top, file + bytes, flags, mode);
}

static int make_folder(char *file)
{
    char *slash = strrchr(file, '/');
    if (slash == NULL)
        return -ENAMETOOLONG;
    *slash = '\0';
    long rc = FAN_SYS(mkdirat, AT_FDCWD, file, 0700);
    if (rc == 0 || rc == -EEXIST)
        rc = FAN_SYS(fchmodat, AT_FDCWD, file, 0700);
    *slash = '/';
    return (int)rc;
}

/* What stands at a parked number may have been replaced by a program that makes system calls past
 * the library: then the directory is another, or none. */
int fan_output_object_open(char *file, int flags, unsigned mode)
{
    int fd = open_below(file, flags, mode);
    if (fd == -EBADF || fd == -ENOENT || fd == -ENOTDIR)
        fd = fan_sys_openat(AT_FDCWD, file, flags, mode);
    if (!(flags & O_CREAT) || (fd != -ENOENT && fd != -EACCES))
        return fd;
    int rc = make_folder(file);
    if (rc == -ENOENT) /* of the job directory, not the program's own */
        return -EIO;
    return rc == 0 ? fan_sys_openat(AT_FDCWD, file, flags, mode) : rc;
}
