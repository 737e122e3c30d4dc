#include "change.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../files/filetable.h"
#include "../job/fresh.h"
#include "../paths/linked.h"
#include "../paths/output_tree.h"

enum { STATUS_BYTES_MAX = 1024, UMASK_DEFAULT = 022, NOTE_BYTES = 40 };

/* Reads /proc, because umask(2) cannot tell the mask without setting it, which other threads would
 * notice. */
unsigned fan_umask(void)
{
    static const char before[] = "\nUmask:\t";
    char status[STATUS_BYTES_MAX];
    fan_sys_read_text("/proc/thread-self/status", status, sizeof(status));
    const char *found = strstr(status, before);
    return found != NULL ? (unsigned)strtoul(found + sizeof(before) - 1, NULL, 8) & 0777
                         : UMASK_DEFAULT;
}

void fan_count_refused(const struct fan_target *target)
{
    static atomic_flag noted = ATOMIC_FLAG_INIT;
    FAN_COUNT(refused_writes, 1);
    if (target->where == FAN_INPUT && !atomic_flag_test_and_set(&noted)) {
        char line[NOTE_BYTES];
        snprintf(line, sizeof(line), "%u %" PRIu64, target->view->number, target->id);
        fan_job_note("refused-writes", line);
    }
}

int fan_refuse_change(const struct fan_target *target, bool exclusive)
{
    int rc = exclusive ? -EEXIST : -EROFS;
    if (target->where == FAN_MISSING)
        rc = target->error == ENOENT && target->creatable && exclusive ? -EROFS : -target->error;
    if (rc == -EROFS)
        fan_count_refused(target);
    return rc;
}

static bool makes_name(unsigned op)
{
    return op == FAN_OUTPUT_MKDIR || op == FAN_OUTPUT_MKNOD || op == FAN_OUTPUT_SYMLINK ||
           op == FAN_OUTPUT_LINK;
}

int fan_output_refuse(const struct fan_target *target, unsigned op)
{
    int rc = fan_refuse_change(target, makes_name(op));
    bool file_with_slash = target->where == FAN_MISSING && target->slash && rc == -ENOTDIR;
    return file_with_slash && makes_name(op) ? -EEXIST : rc;
}

/* Asks the daemon until the path no longer leads out of the outputs, or has left them for good.
 * Returns false if the caller must make the real call. */
static bool ask(unsigned flags, struct fan_output_call *call, struct fan_target *target, int *rc)
{
    struct fan_output_answer answer;
    call->request.how = flags & FAN_NOFOLLOW ? FAN_OUTPUT_NOFOLLOW : 0;
    while (target->where == FAN_BEYOND) {
        *rc = fan_output_ask_of(target, call, flags | FAN_CHANGE | FAN_THROUGH, &answer, NULL);
        if (*rc != 0 || answer.where != FAN_OUTPUT_ELSEWHERE)
            return true;
    }
    if (fan_target_is_real(target))
        return false;
    *rc = fan_output_refuse(target, call->request.op);
    return true;
}

bool fan_output_change(int dirfd, const char *path, unsigned flags, struct fan_output_call *call,
                       struct fan_target *target, int *rc)
{
    flags |= makes_name(call->request.op) ? FAN_MAKE : 0u;
    if (!fan_locate_change(dirfd, path, flags, target))
        return false;
    bool masked = call->request.op == FAN_OUTPUT_MKDIR || call->request.op == FAN_OUTPUT_MKNOD;
    if (masked && target->where == FAN_BEYOND)
        call->request.mode &= ~fan_umask();
    return ask(flags, call, target, rc);
}

void fan_output_settle(uint64_t pointers, struct fan_target *target, struct fan_target *renamed)
{
    struct fan_output_call call = {.request.op = FAN_OUTPUT_SETTLE};
    struct fan_output_answer answer;
    bool made = (pointers & 1) != 0 || pointers != fan_tree_pointers();
    if (!made || fan_tree_ask(target) != 0 || (renamed != NULL && fan_tree_ask(renamed) != 0))
        return;
    call.request.view = call.request.other_view = fan_output_view(target->view);
    call.path = target->path;
    call.other = renamed != NULL ? renamed->path : NULL;
    fan_output_ask(&call, &answer, NULL); /* without a daemon, no other rank sees the names */
}

static int64_t nanoseconds(const struct timespec *time)
{
    const int64_t second = 1000000000, most = INT64_MAX / second - 1;
    int64_t seconds = time->tv_sec > most ? most : time->tv_sec < -most ? -most : time->tv_sec;
    return seconds * second + time->tv_nsec;
}

static bool valid(const struct timespec *time)
{
    return (time->tv_nsec >= 0 && time->tv_nsec < 1000000000) || time->tv_nsec == UTIME_NOW ||
           time->tv_nsec == UTIME_OMIT;
}

int fan_output_set_times(struct fan_output_call *call, const struct timespec times[2])
{
    static const struct timespec both_now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    struct timespec now = {0};
    const struct timespec *given = times != NULL ? times : both_now;
    if (!valid(&given[0]) || !valid(&given[1]))
        return -EINVAL;
    FAN_SYS(clock_gettime, CLOCK_REALTIME, &now);
    call->request.change = (given[0].tv_nsec != UTIME_OMIT ? FAN_OUTPUT_ATIME : 0u) |
                           (given[1].tv_nsec != UTIME_OMIT ? FAN_OUTPUT_MTIME : 0u);
    call->request.atime_ns = nanoseconds(given[0].tv_nsec == UTIME_NOW ? &now : &given[0]);
    call->request.mtime_ns = nanoseconds(given[1].tv_nsec == UTIME_NOW ? &now : &given[1]);
    return 0;
}

void fan_output_refresh(int fd)
{
    const struct fan_file *file = fan_file_get(fd);
    if (file == NULL || file->kind != FAN_FILE_OUTPUT || file->slot->writable)
        return;
    fan_tree_changed();
}

bool fan_output_is_directory(int fd)
{
    const struct fan_file *file = fan_file_get(fd);
    return file != NULL && file->kind == FAN_FILE_OUTDIR;
}

bool fan_output_change_directory(int fd, struct fan_output_call *call, int *rc)
{
    FAN_OFF_STACK(struct fan_target_room, room);
    long length = room != NULL ? fan_fd_path(fd, room->path, sizeof(room->path)) : -ENOMEM;
    if (length >= 0)
        return fan_output_change(AT_FDCWD, room->path, FAN_NOFOLLOW, call, &room->target, rc);
    *rc = (int)length;
    return true;
}
