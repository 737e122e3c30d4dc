#include "target.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../common/sys.h"
#include "origin.h"

/* Defined as in newer headers. */
#ifndef SYS_pidfd_getfd
#    define SYS_pidfd_getfd 438
#endif

enum { PAGE_BYTES = 4096, STATUS_BYTES = 2048, LINKS_MAX = 8 };

int fan_target_read(pid_t tid, uint64_t at, void *to, size_t bytes)
{
    struct iovec own = {to, bytes}, its = {(void *)at, bytes};
    ssize_t got = process_vm_readv(tid, &own, 1, &its, 1, 0);
    return got == (ssize_t)bytes ? 0 : got < 0 ? -errno : -EFAULT;
}

int fan_target_write(pid_t tid, uint64_t at, const void *from, size_t bytes)
{
    struct iovec own = {(void *)from, bytes}, its = {(void *)at, bytes};
    ssize_t put = bytes > 0 ? process_vm_writev(tid, &own, 1, &its, 1, 0) : 0;
    return put == (ssize_t)bytes ? 0 : put < 0 ? -errno : -EFAULT;
}

int fan_target_text(pid_t tid, uint64_t at, char to[PATH_MAX])
{
    for (size_t done = 0; done < PATH_MAX;) {
        size_t bytes = PAGE_BYTES - (at + done) % PAGE_BYTES;
        if (bytes > PATH_MAX - done)
            bytes = PATH_MAX - done;
        int rc = fan_target_read(tid, at + done, to + done, bytes);
        if (rc != 0)
            return rc;
        const char *end = memchr(to + done, '\0', bytes);
        if (end != NULL)
            return (int)(end - to);
        done += bytes;
    }
    return -ENAMETOOLONG;
}

int fan_target_link(pid_t tid, const char *name, char to[PATH_MAX])
{
    char link[64];
    snprintf(link, sizeof(link), "/proc/%d/%s", tid, name);
    long length = fan_sys_readlink(AT_FDCWD, link, to, PATH_MAX);
    return length < 0 ? (int)length : fan_origin_shown(to, (size_t)length);
}

int fan_target_fd_link(pid_t tid, int fd, char to[PATH_MAX])
{
    char name[32];
    snprintf(name, sizeof(name), "fd/%d", fd);
    return fan_target_link(tid, name, to);
}

/* Returns what follows "/proc/self/", "/proc/thread-self/" or "/proc/<number>/" and perhaps
 * "task/<number>/" in a path, and sets `whose` to the process. Returns NULL if the path begins with
 * none of these. */
static const char *below_process(const char *path, pid_t tid, pid_t *whose)
{
    static const char *const own[] = {"/proc/self", "/proc/thread-self"};
    char *end = NULL;
    for (size_t i = 0; i < 2; i++) {
        if (strncmp(path, own[i], strlen(own[i])) == 0)
            end = (char *)path + strlen(own[i]);
    }
    *whose = tid;
    if (end == NULL) {
        if (strncmp(path, "/proc/", 6) != 0 || path[6] < '1' || path[6] > '9')
            return NULL;
        *whose = (pid_t)strtol(path + 6, &end, 10);
    }
    if (strncmp(end, "/task/", 6) == 0)
        *whose = (pid_t)strtol(end + 6, &end, 10);
    return *end == '/' ? end + 1 : NULL;
}

/* Returns the length of the name of a link of a process at the start of `at`, the part of a path
 * after /proc/<number>/; 0 if there is none. */
static size_t thing_bytes(const char *at)
{
    static const char *const things[] = {"cwd", "exe", "root"};
    for (size_t i = 0; i < sizeof(things) / sizeof(things[0]); i++) {
        if (strncmp(at, things[i], strlen(things[i])) == 0)
            return strlen(things[i]);
    }
    size_t digits = strncmp(at, "fd/", 3) == 0 ? strspn(at + 3, "0123456789") : 0;
    return digits > 0 ? 3 + digits : 0;
}

/* Writes the name in /proc/<number> of a link of a process, such as "cwd" or "fd/N", to `name`.
 * Returns the rest of the path after that name, or NULL if the path names none. */
static const char *own_thing(const char *path, pid_t tid, pid_t *whose, char name[32])
{
    static const char *const streams[] = {"/dev/stdin", "/dev/stdout", "/dev/stderr"};
    for (int i = 0; i < 3; i++) {
        if (strcmp(path, streams[i]) == 0) {
            snprintf(name, 32, "fd/%d", i);
            *whose = tid;
            return path + strlen(path);
        }
    }
    const char *at = below_process(path, tid, whose);
    if (strncmp(path, "/dev/fd/", 8) == 0) {
        *whose = tid;
        at = path + 5;
    }
    if (at == NULL)
        return NULL;
    size_t bytes = thing_bytes(at);
    if (bytes == 0 || bytes >= 32 || (at[bytes] != '/' && at[bytes] != '\0'))
        return NULL;
    memcpy(name, at, bytes);
    name[bytes] = '\0';
    return at + bytes;
}

/* Replaces links of processes in /proc at the start of a path by their targets. Returns the
 * length. */
static int through_proc(pid_t tid, bool follow, char to[PATH_MAX])
{
    char there[PATH_MAX], name[32];
    for (int links = 0; links < LINKS_MAX; links++) {
        pid_t whose;
        const char *rest = own_thing(to, tid, &whose, name);
        if (rest == NULL || (*rest == '\0' && !follow))
            break;
        int length = fan_target_link(whose, name, there);
        if (length < 0 || there[0] != '/')
            break;
        size_t left = strlen(rest);
        if (length == 1 && left > 0) /* no second slash: `rest` begins with one */
            length = 0;
        if ((size_t)length + left >= PATH_MAX)
            return -ENAMETOOLONG;
        memmove(to + length, rest, left + 1);
        memcpy(to, there, (size_t)length);
    }
    return (int)strlen(to);
}

int fan_target_absolute(pid_t tid, int dirfd, const char *path, bool follow, char to[PATH_MAX])
{
    size_t bytes = strlen(path);
    int start = 0;
    if (path[0] != '/') {
        start = dirfd == AT_FDCWD ? fan_target_link(tid, "cwd", to)
                                  : fan_target_fd_link(tid, dirfd, to);
        if (start < 0)
            return start == -ENOENT ? -EBADF : start;
        if (bytes == 0)
            return start;
        if (to[start - 1] != '/')
            to[start++] = '/';
    }
    if ((size_t)start + bytes >= PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(to + start, path, bytes + 1);
    if (path[0] != '/')
        return start + (int)bytes;
    int length = through_proc(tid, follow, to);
    return length < 0 ? length : fan_origin_shown_path(to, (size_t)length);
}

static const char *field(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found != NULL ? found + strlen(name) : NULL;
}

int fan_target_status(pid_t tid, struct fan_target_status *status)
{
    char path[64], text[STATUS_BYTES];
    snprintf(path, sizeof(path), "/proc/%d/status", tid);
    long bytes = fan_sys_read_text(path, text, sizeof(text));
    if (bytes < 0)
        return (int)bytes;
    const char *umask = field(text, "\nUmask:\t"), *tgid = field(text, "\nTgid:\t");
    if (umask == NULL || tgid == NULL)
        return -ESRCH;
    status->umask = (unsigned)strtoul(umask, NULL, 8) & 0777;
    status->tgid = (pid_t)strtol(tgid, NULL, 10);
    return 0;
}

int fan_target_borrow(pid_t tid, int fd)
{
    struct fan_target_status status;
    int process = (int)FAN_SYS(pidfd_open, tid, O_EXCL); /* PIDFD_THREAD, since Linux 6.9 */
    int rc = process == -EINVAL ? fan_target_status(tid, &status) : 0;
    if (rc == 0 && process == -EINVAL)
        process = (int)FAN_SYS(pidfd_open, status.tgid, 0);
    if (rc < 0 || process < 0)
        return rc < 0 ? rc : process;
    rc = (int)FAN_SYS(pidfd_getfd, process, fd, 0);
    fan_sys_close(process);
    return rc;
}
