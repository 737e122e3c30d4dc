#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../common/sys.h"

int fan_log_fd = -1;
static struct stat log_file;

void fan_log_begin(const char *value)
{
    char *end;
    long fd = value != NULL ? strtol(value, &end, 10) : -1;
    if (value != NULL && end != value && *end == '\0' && fd >= 0 && fd <= INT_MAX &&
        FAN_SYS(fstat, (int)fd, &log_file) == 0)
        fan_log_fd = (int)fd;
}

/* Returns whether the descriptor is still the log: a program may close it, and another file may get
 * its number. */
static bool is_still_the_log(void)
{
    struct stat now;
    return FAN_SYS(fstat, fan_log_fd, &now) == 0 && now.st_dev == log_file.st_dev &&
           now.st_ino == log_file.st_ino;
}

/* Returns the name of an error that is common for paths; other errors are shown as numbers. */
static const char *name_of(int error)
{
#define NAME(error)                                                                                \
    case error:                                                                                    \
        return #error
    switch (error) {
        NAME(EACCES); NAME(EBADF); NAME(EBUSY); NAME(EEXIST); NAME(EFAULT); NAME(EINVAL);
        NAME(EIO); NAME(EISDIR); NAME(ELOOP); NAME(ENAMETOOLONG); NAME(ENODATA); NAME(ENOENT);
        NAME(ENOTDIR); NAME(ENOTEMPTY); NAME(EOPNOTSUPP); NAME(EPERM); NAME(EROFS); NAME(ETXTBSY);
        NAME(EXDEV);
    default:
        return "error";
    }
#undef NAME
}

static const char *taken_for(const struct fan_target *target, int error)
{
    static const char *const names[] = {[FAN_OUTSIDE] = "outside", [FAN_INPUT] = "input",
                                        [FAN_MISSING] = "missing", [FAN_BEYOND] = "output",
                                        [FAN_OUTPUT] = "output",   [FAN_TREE] = "output"};
    bool none = error == ENOENT && target->where != FAN_OUTSIDE; /* the daemon said so */
    return none ? "missing" : names[target->where];
}

/* Writes a path as it was given, except for characters that would break the line. */
static size_t put_path(char *to, const char *path)
{
    bool readable = (uintptr_t)path >= 4096 && (intptr_t)path > 0;
    size_t bytes = readable ? strnlen(path, PATH_MAX) : 0;
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)path[i] < ' ' ? '?' : path[i];
    return bytes;
}

void fan_log_write(const char *call, const char *path, const struct fan_target *target,
                   long answer)
{
    char line[PATH_MAX + 128];
    int error = errno;
    size_t length = (size_t)snprintf(line, 64, "fanstore[%d] %.40s \"", (int)FAN_SYS(getpid), call);
    length += put_path(line + length, path);
    length += (size_t)snprintf(line + length, 64, "\" %s = %ld",
                               taken_for(target, answer == -1 ? error : 0), answer);
    if (answer == -1)
        length += (size_t)snprintf(line + length, 48, " %s (%d)", name_of(error), error);
    line[length++] = '\n';
    while (is_still_the_log() && FAN_SYS(write, fan_log_fd, line, length) == -EINTR)
        continue;
    errno = error;
}
