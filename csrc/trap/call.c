#include "call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../common/sys.h"
#include "names.h"
#include "target.h"

/* Defined as in newer headers. */
#ifndef SECCOMP_ADDFD_FLAG_SEND
#define SECCOMP_ADDFD_FLAG_SEND (1UL << 1)
#endif

static bool umask_is_shared; /* since before the first call */
static pthread_mutex_t umask_lock = PTHREAD_MUTEX_INITIALIZER;
static __thread bool umask_is_held, umask_is_theirs;

long fan_call_result(long rc)
{
    return rc < 0 ? -errno : rc;
}

bool fan_call_valid(const struct fan_call *call)
{
    uint64_t id = call->id;
    return ioctl(call->listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &id) == 0;
}

/* Returns whether a process belongs to this user. What another user's process may do, only the
 * kernel knows. */
static bool is_own(const struct fan_call *call)
{
    char path[32];
    struct stat st;
    snprintf(path, sizeof(path), "/proc/%d", call->tid);
    return FAN_SYS(newfstatat, AT_FDCWD, path, &st, 0) == 0 && st.st_uid == geteuid();
}

void fan_call_ask_for(const struct fan_call *call)
{
    struct fan_target_status status;
    fan_output_behalf = fan_target_status(call->tid, &status) == 0 ? (uint32_t)status.tgid : 0;
}

bool fan_call_find(const struct fan_call *call, int dirfd, uint64_t at, unsigned how,
                    struct fan_spot *spot)
{
    bool follow = how & FAN_SPOT_FOLLOW;
    spot->given[0] = spot->path[0] = '\0';
    if ((at != 0 || !(how & FAN_SPOT_EMPTY)) && fan_target_text(call->tid, at, spot->given) < 0) {
        spot->given[0] = '\0';
        return false;
    }
    if (spot->given[0] == '\0' && (!(how & FAN_SPOT_EMPTY) || dirfd == AT_FDCWD))
        return false;
    if (fan_target_absolute(call->tid, dirfd, spot->given, follow, spot->path) < 0) {
        spot->path[0] = '\0';
        return false;
    }
    const char *rest;
    if (spot->given[0] == '\0' &&
        (fan_target_is_nameless(spot->path) || fan_match_prefix(spot->path, &rest) == NULL))
        return false; /* not led elsewhere, or the process's own */
    unsigned flags = (follow ? 0u : FAN_NOFOLLOW) | FAN_THROUGH | FAN_DEFER;
    if (!fan_locate(AT_FDCWD, spot->path, flags, &spot->target) && spot->target.where != FAN_TREE) {
        if (spot->target.path != spot->path)
            fan_names_lead(spot->path); /* a link leads out of a mount: the kernel needs the link */
        return false;
    }
    if (!fan_call_valid(call) || !is_own(call))
        return false;
    if (spot->target.where != FAN_INPUT)
        fan_call_ask_for(call);
    return true;
}

void fan_call_share_umask(void)
{
    umask_is_shared = true;
}

void fan_call_umask(const struct fan_call *call)
{
    struct fan_target_status status;
    umask_is_theirs = true;
    if (umask_is_shared && !umask_is_held) {
        pthread_mutex_lock(&umask_lock);
        umask_is_held = true;
    }
    if (fan_target_status(call->tid, &status) == 0)
        umask((mode_t)status.umask);
}

void fan_call_end(void)
{
    fan_output_behalf = 0;
    if (umask_is_theirs)
        umask(077); /* the umask for the supervisor's own files */
    umask_is_theirs = false;
    if (!umask_is_held)
        return;
    umask_is_held = false;
    pthread_mutex_unlock(&umask_lock);
}

static long add(const struct fan_call *call, int fd, bool cloexec, uint32_t flags)
{
    struct seccomp_notif_addfd given = {
        .id = call->id,
        .flags = flags,
        .srcfd = (uint32_t)fd,
        .newfd_flags = cloexec ? O_CLOEXEC : 0,
    };
    return fan_call_result(ioctl(call->listener, SECCOMP_IOCTL_NOTIF_ADDFD, &given));
}

/* Returns whether signals do not interrupt caught calls (family/filter.c), which is so since Linux
 * 5.19. */
static bool signals_wait(void)
{
    struct utsname system;
    unsigned major = 0, minor = 0;
    if (uname(&system) != 0 || sscanf(system.release, "%u.%u", &major, &minor) != 2)
        return false;
    return major > 5 || (major == 5 && minor >= 19);
}

/* Closes this process's copy before the caller continues. Otherwise a lock, or a program open for
 * writing, would outlast the caller's own close. If a signal could interrupt the call after the
 * descriptor is given, the caller would keep a descriptor that it does not know: then one step
 * gives the descriptor and ends the call. */
long fan_call_give(const struct fan_call *call, int fd, bool cloexec)
{
    bool together = !signals_wait();
    long rc = add(call, fd, cloexec, together ? SECCOMP_ADDFD_FLAG_SEND : 0);
    if (together && rc == -EINVAL) { /* before Linux 5.14 */
        together = false;
        rc = add(call, fd, cloexec, 0);
    }
    fan_sys_close(fd);
    return together && rc >= 0 ? FAN_CALL_DONE : rc;
}
