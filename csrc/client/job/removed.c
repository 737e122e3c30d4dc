/* Detects that files of a job, or this library, were removed while the job runs, for example by a
 * cleaner of /tmp. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../machine/maps.h"
#include "../machine/spelling.h"
#include "job.h"

/* Returns whether the file that is mapped at `address` has lost its name. */
static bool is_nameless(const void *address)
{
    static const char mark[] = " (deleted)";
    struct line {
        char text[FAN_MAPS_LINE_BYTES];
    };
    FAN_OFF_STACK(struct line, line);
    const char *path = line != NULL ? fan_maps_path(address, line->text) : NULL;
    size_t bytes = path != NULL ? strlen(path) : 0;
    return bytes >= sizeof(mark) && strcmp(path + bytes - (sizeof(mark) - 1), mark) == 0;
}

static bool is_missing(const char *path)
{
    return FAN_SYS(faccessat, AT_FDCWD, path, F_OK) == -ENOENT;
}

/* Returns the path of the file that a new program would lack, or NULL. In another mount namespace a
 * path may not exist although its file was never removed. A library in the job directory is a link
 * (fanstore/job/job.py). */
static const char *find_removed(const char *segment, const char *library)
{
    const struct fan_text *job = &fan_job.directory;
    bool hidden = is_missing(segment);
    if (hidden && is_nameless(fan_job.header))
        return segment;
    if (library == NULL || !is_missing(library))
        return NULL;
    bool linked = strncmp(library, job->text, job->bytes) == 0 && library[job->bytes] == '/';
    return (linked && !hidden) || is_nameless((const void *)find_removed) ? library : NULL;
}

static void say_removed(const char *path)
{
    static const char name[] = "fanstore: ",
                      what[] = " was removed while the job runs. A program that is started now "
                               "would not see the mounts, so none is. FANSTORE_OFF=1 in its "
                               "environment starts one without them.\n";
    struct iovec pieces[] = {{(char *)name, sizeof(name) - 1},
                             {(char *)path, strlen(path)},
                             {(char *)what, sizeof(what) - 1}};
    FAN_SYS(writev, STDERR_FILENO, pieces, 3);
}

int fan_job_joinable(void)
{
    static bool said;
    char segment[4096];
    const struct fan_text *job = &fan_job.directory;
    const char *library = fan_job.preload != NULL ? fan_job.preload + sizeof(FAN_PRELOAD_ENV) : NULL;
    if (__atomic_load_n(&fan_job.header->state, __ATOMIC_ACQUIRE) == FAN_JOB_ENDED ||
        !fan_join(segment, sizeof(segment), job->text, job->bytes, "segment"))
        return 0;
    const char *removed = find_removed(segment, library);
    if (removed == NULL)
        return 0;
    if (!said)
        say_removed(removed);
    said = true;
    return -EIO;
}
