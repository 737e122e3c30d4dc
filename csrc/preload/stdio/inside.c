/*
 * Calls of libc that open or look at files inside, past us: done here with calls that come to us,
 * or given a real file to open.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <nl_types.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utmp.h>
#include <utmpx.h>

#include "../../client/paths/resolve.h"
#include "../../common/sys.h"
#include "../cancel.h"
#include "../real.h"
#include "../undeclared.h"
#include "streams.h"

FAN_EXPORT key_t ftok(const char *path, int project)
{
    struct stat st;
    if (fan_job.view_count == 0)
        return REAL(ftok)(path, project);
    if (stat(path, &st) != 0)
        return -1;
    return (key_t)((st.st_ino & 0xffff) | ((st.st_dev & 0xff) << 16) |
                   ((unsigned)(project & 0xff) << 24));
}

/* What libc does with such a stream beside reading it, its caller does with a lock of its own. */
FAN_EXPORT FILE *setmntent(const char *path, const char *mode)
{
    char flagged[16];
    if (fan_job.view_count == 0 || strlen(mode) + 2 > sizeof(flagged))
        return REAL(setmntent)(path, mode);
    strcpy(stpcpy(flagged, mode), "e");
    FILE *stream = fopen(path, flagged);
    if (stream != NULL)
        __fsetlocking(stream, FSETLOCKING_BYCALLER);
    return stream;
}

FAN_ALIAS(__setmntent, setmntent);

FAN_EXPORT int endmntent(FILE *stream)
{
    if (fan_given(stream))
        fclose(stream);
    return 1;
}

FAN_ALIAS(__endmntent, endmntent);

/* The path of a mount that a call is given, as a real file: a descriptor with `path`. -1: it is not
 * ours, -errno below that: it cannot be had. */
enum { NOT_OURS = -0x10000 };

static int real_file(const char *name, char path[FAN_REAL_PATH_BYTES])
{
    struct fan_target target;
    if (fan_job.view_count == 0 || !fan_locate(AT_FDCWD, name, FAN_DEFER, &target))
        return NOT_OURS;
    return target.where == FAN_MISSING ? -target.error : fan_stream_real(&target, "re", path);
}

FAN_EXPORT nl_catd catopen(const char *name, int flag)
{
    char path[FAN_REAL_PATH_BYTES];
    int fd = strchr(name, '/') != NULL ? real_file(name, path) : NOT_OURS;
    if (fd == NOT_OURS)
        return REAL(catopen)(name, flag);
    if (fd < 0) {
        errno = -fd;
        return (nl_catd)-1;
    }
    nl_catd catalogue = REAL(catopen)(path, flag);
    fan_close_quietly(fd);
    return catalogue;
}

enum { KEPT_FROM = 200 }; /* a descriptor of ours, out of the way of the program's */

/* libc opens the file when it is first read: until another is named, it is kept. */
FAN_EXPORT int utmpname(const char *name)
{
    static _Atomic int kept = -1;
    char path[FAN_REAL_PATH_BYTES];
    int fd = real_file(name, path), high = NOT_OURS;
    if (fd >= 0) {
        high = fan_sys_fcntl(fd, F_DUPFD_CLOEXEC, KEPT_FROM);
        fan_close_quietly(fd);
        if (high >= 0)
            snprintf(path, sizeof(path), "/proc/self/fd/%d", high);
    }
    int rc = REAL(utmpname)(high >= 0 ? path : name);
    if (rc == 0) {
        int old = atomic_exchange(&kept, high);
        if (old >= 0)
            fan_sys_close(old);
    }
    return rc;
}

FAN_ALIAS(utmpxname, utmpname);

FAN_EXPORT void updwtmp(const char *name, const struct utmp *entry)
{
    struct fan_target target;
    if (fan_job.view_count == 0 || !fan_locate_change(AT_FDCWD, name, 0, &target)) {
        REAL(updwtmp)(name, entry);
        return;
    }
    bool held = fan_cancel_hold(); /* as libc's own, which is no cancellation point */
    int fd = open(name, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd >= 0 && write(fd, entry, sizeof(*entry)) == sizeof(*entry))
        fsync(fd);
    if (fd >= 0)
        close(fd);
    fan_cancel_end(held);
}

/* The same with the type that has the same layout. */
FAN_EXPORT void updwtmpx(const char *name, const struct utmpx *entry)
{
    updwtmp(name, (const struct utmp *)(const void *)entry);
}

/* getdents64(2), and where it began. */
FAN_EXPORT ssize_t getdirentries(int fd, char *buffer, size_t bytes, off_t *base)
{
    off_t start = lseek(fd, 0, SEEK_CUR);
    ssize_t got = start < 0 ? -1 : getdents64(fd, buffer, bytes);
    if (got >= 0)
        *base = start;
    return got;
}

FAN_ALIAS(getdirentries64, getdirentries);
