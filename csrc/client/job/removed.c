/* Files of a job, or this library, that are removed while the job runs, as cleaners of /tmp do. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../common/sys.h"
#include "../machine/spelling.h"
#include "job.h"

/* A line of /proc/self/maps as far as it was read: the numbers at its start, and how much of the
 * mark its last characters are. */
struct line {
    uintptr_t bounds[2];
    unsigned numbers;
    size_t marked;
};

static const char mark[] = " (deleted)";

/* Whether the line ends with `c`, and is of a removed file that is mapped at `address`. */
static bool tells(struct line *line, char c, uintptr_t address)
{
    if (c == '\n') {
        bool found = line->bounds[0] <= address && address < line->bounds[1] &&
                     line->marked == sizeof(mark) - 1;
        *line = (struct line){.numbers = 0};
        return found;
    }
    line->marked = c == mark[line->marked] ? line->marked + 1 : c == mark[0];
    if (line->numbers < 2 && (c == '-' || c == ' '))
        line->numbers++;
    else if (line->numbers < 2)
        line->bounds[line->numbers] =
            line->bounds[line->numbers] * 16 + (uintptr_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    return false;
}

/* Whether the file that is mapped at `address` has lost its name. */
static bool is_nameless(const void *address)
{
    struct line line = {.numbers = 0};
    char text[1024];
    long got;
    int maps = fan_sys_openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    bool found = false;
    while (!found && (got = FAN_SYS(read, maps, text, sizeof(text))) > 0) {
        for (long i = 0; i < got && !found; i++)
            found = tells(&line, text[i], (uintptr_t)address);
    }
    if (maps >= 0)
        fan_sys_close(maps);
    return found;
}

static bool is_missing(const char *path)
{
    return FAN_SYS(faccessat, AT_FDCWD, path, F_OK) == -ENOENT;
}

/* What a new program would miss, or NULL. In another mount namespace paths may lead nowhere that
 * were never removed. A library in the job directory is a link (fanstore/job/job.py). */
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
