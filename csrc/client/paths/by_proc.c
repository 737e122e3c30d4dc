#include "by_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "../../common/sys.h"
#include "../files/filetable.h"
#include "../job/ask.h"
#include "../machine/spelling.h"
#include "linked.h"

/* The object whose real file, or copy of another node's, a path is: 0 if it is none. */
static uint64_t object_at(const char *path)
{
    static const char *const folders[] = {"/objects/", "/copies/"};
    const struct fan_text *job = &fan_job.directory;
    if (strncmp(path, job->text, job->bytes) != 0)
        return 0;
    for (unsigned i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        uint64_t object = 0;
        if (strncmp(path + job->bytes, folders[i], strlen(folders[i])) != 0)
            continue;
        const char *digit = strrchr(path, '/') + 1;
        for (; (*digit >= '0' && *digit <= '9') || (*digit >= 'a' && *digit <= 'f'); digit++)
            object = object * 16 + (uint64_t)(*digit <= '9' ? *digit - '0' : *digit - 'a' + 10);
        /* A file that has no name any more may be one that its only writer knows. */
        return *digit == '\0' ? object : 0;
    }
    return 0;
}

/* The same of a descriptor that is not in the table: received from another process, or another's.
 */
static uint64_t object_by_link(const char *path, int fd, char real[PATH_MAX])
{
    long bytes = fd >= 0 ? fan_fd_path(fd, real, PATH_MAX)
                         : FAN_SYS(readlinkat, AT_FDCWD, path, real, PATH_MAX - 1);
    if (bytes <= 0)
        return 0;
    real[bytes] = '\0';
    return object_at(real);
}

static int ask_name(uint64_t object, bool change, char name[PATH_MAX])
{
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_NAME, .object_count = 1},
                                   .objects = &object};
    struct fan_output_answer answer;
    int rc = fan_output_ask(&call, &answer, name);
    if (rc == 0)
        return answer.where == FAN_OUTPUT_HERE;
    return !change ? 0 : rc == -ENOENT ? -EROFS : rc;
}

int fan_output_by_proc(const char *path, bool change, char name[PATH_MAX])
{
    if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/dev/", 5) != 0)
        return 0;
    int fd = fan_proc_fd(path);
    const struct fan_file *file = fd >= 0 ? fan_file_get(fd) : NULL;
    if (file != NULL && (file->kind != FAN_FILE_OUTPUT || (change && file->writable)))
        return 0;
    if (file == NULL && !change)
        return 0;
    uint64_t object = file != NULL ? file->id : object_by_link(path, fd, name);
    return object != 0 ? ask_name(object, change, name) : 0;
}

uint64_t fan_output_of_fd(int fd, char name[PATH_MAX])
{
    uint64_t object = object_by_link("", fd, name);
    return object != 0 && ask_name(object, false, name) == 1 ? object : 0;
}
