#include "handlers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../client/outputs/writers.h"
#include "../common/sys.h"
#include "../preload/syscall/syscall.h"
#include "target.h"

/* Removes the writer's entries of a process that exits by itself, because its outputs are
 * finished. */
static long handle_exit(const struct fan_call *call)
{
    struct fan_target_status status;
    if (fan_target_status(call->tid, &status) == 0)
        fan_writer_release_of((uint32_t)status.tgid);
    return FAN_CALL_CONTINUE;
}

/* Returns whether a call that takes AT_EMPTY_PATH is about its descriptor. */
static bool names_descriptor(const struct fan_call *call, int flags)
{
    char first;
    if (!(flags & AT_EMPTY_PATH) || (int)call->args[0] == AT_FDCWD)
        return false;
    return call->args[1] == 0 ||
           (fan_target_read(call->tid, call->args[1], &first, 1) == 0 && first == '\0');
}

/* Answers newfstatat and statx. For an open descriptor, uses the file to which it leads. */
static long handle_stat(const struct fan_call *call, int flags)
{
    char path[PATH_MAX];
    const char *rest;
    if (!names_descriptor(call, flags))
        return fan_run(call);
    bool ours = fan_target_fd_link(call->tid, (int)call->args[0], path) >= 0 &&
                !fan_target_is_nameless(path) && fan_match_prefix(path, &rest) != NULL &&
                fan_call_valid(call);
    return ours ? fan_run_of(call, path) : FAN_CALL_CONTINUE;
}

static long handle_fstat(const struct fan_call *call)
{
    struct fan_call same = *call;
    same.number = SYS_newfstatat;
    same.args[1] = 0;
    same.args[2] = call->args[1];
    same.args[3] = AT_EMPTY_PATH;
    return handle_stat(&same, AT_EMPTY_PATH);
}

/* Copies as much of a text as fits to the caller, without its NUL. */
static long give_text(const struct fan_call *call, const char *text, size_t length, uint64_t at,
                      uint64_t room)
{
    size_t bytes = length < room ? length : room;
    if ((int64_t)room <= 0)
        return -EINVAL;
    if (!fan_call_valid(call))
        return -ESRCH;
    return fan_target_write(call->tid, at, text, bytes) == 0 ? (long)bytes : -EFAULT;
}

/* Finds where a link of /proc leads that stands for a file of a mount. Returns the length of the
 * path there, or 0. */
static int shown_link(const struct fan_call *call, int dirfd, uint64_t at, char path[PATH_MAX])
{
    char given[PATH_MAX];
    const char *rest;
    if (fan_target_text(call->tid, at, given) < 0 ||
        (strncmp(given, "/proc/", 6) != 0 && strncmp(given, "/dev/", 5) != 0))
        return 0;
    int length = fan_target_absolute(call->tid, dirfd, given, true, path);
    return length > 0 && strcmp(given, path) != 0 && fan_match_prefix(path, &rest) != NULL ? length
                                                                                           : 0;
}

/* Answers readlink and readlinkat. For the latter, "" always means the descriptor, without a
 * flag. */
static long handle_readlink(const struct fan_call *call)
{
    struct fan_spot spot;
    bool at_form = call->number == SYS_readlinkat;
    const uint64_t *args = call->args + (at_form ? 1 : 0);
    int dirfd = at_form ? (int)call->args[0] : AT_FDCWD;
    int length = shown_link(call, dirfd, args[0], spot.path);
    if (length > 0)
        return give_text(call, spot.path, (size_t)length, args[1], args[2]);
    if (!fan_call_find(call, dirfd, args[0], at_form ? FAN_SPOT_EMPTY : 0, &spot))
        return FAN_CALL_CONTINUE;
    char text[PATH_MAX];
    ssize_t got = readlink(spot.path, text, sizeof(text));
    if (got < 0)
        return errno == EINVAL && spot.given[0] == '\0' ? -ENOENT : -errno;
    return give_text(call, text, (size_t)got, args[1], args[2]);
}

static long handle_getcwd(const struct fan_call *call)
{
    char raw[PATH_MAX], shown[PATH_MAX], link[32];
    snprintf(link, sizeof(link), "/proc/%d/cwd", call->tid);
    if (fan_sys_readlink(AT_FDCWD, link, raw, sizeof(raw)) <= 0)
        return FAN_CALL_CONTINUE;
    int length = fan_target_link(call->tid, "cwd", shown);
    if (length < 0 || strcmp(raw, shown) == 0 || !fan_call_valid(call))
        return FAN_CALL_CONTINUE;
    if (call->args[1] < (uint64_t)length + 1)
        return -ERANGE;
    int rc = fan_target_write(call->tid, call->args[0], shown, (size_t)length + 1);
    return rc == 0 ? length + 1 : -EFAULT;
}

bool fan_is_caught(long number)
{
    return fan_call_has_path(number) || number == SYS_fstat || number == SYS_getcwd ||
           number == SYS_exit_group;
}

/* Answers the calls whose answer needs more than their row in calls.def. */
static long handle(const struct fan_call *call)
{
    switch (call->number) {
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
#endif
    case SYS_openat:
    case SYS_openat2:
        return fan_handle_open(call);
    case SYS_fstat:
        return handle_fstat(call);
    case SYS_newfstatat:
        return handle_stat(call, (int)call->args[3]);
    case SYS_statx:
        return handle_stat(call, (int)call->args[2]);
#ifdef SYS_readlink
    case SYS_readlink:
#endif
    case SYS_readlinkat:
        return handle_readlink(call);
    case SYS_getcwd:
        return handle_getcwd(call);
    case SYS_chdir:
        return fan_handle_chdir(call);
    case SYS_execve:
    case SYS_execveat:
        return fan_handle_execve(call);
    case SYS_exit_group:
        return handle_exit(call);
    default:
        return fan_run(call);
    }
}

long fan_handle(const struct fan_call *call)
{
    long rc = handle(call);
    fan_call_end();
    return rc;
}
