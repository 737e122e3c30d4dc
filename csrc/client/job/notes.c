#include "notes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "job.h"

void fan_job_note(const char *file, const char *line)
{
    enum { NOTES_BYTES_MAX = 64 << 10 };
    struct text {
        char bytes[2 * PATH_MAX];
    };
    FAN_OFF_STACK(struct text, room);
    if (room == NULL)
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
