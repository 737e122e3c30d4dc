#include "handlers.h"

#include <errno.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <utime.h>

#include "../client/paths/cwd.h"
#include "../common/sys.h"
#include "../preload/syscall/syscall.h"
#include "target.h"
#include "tree.h"

/* The largest buffer: no attribute of a file is larger, and no path is longer. */
enum { BUFFER_BYTES_MAX = 64 << 10, ARGUMENTS = 6 };

/* The replacement for an argument that points to the caller's memory. */
struct buffer {
    char *own;
    uint64_t theirs;
    size_t bytes; /* to give back after the call */
};

struct run {
    const struct fan_call *call;
    const char *letters;
    long args[ARGUMENTS];
    struct buffer buffers[ARGUMENTS];
    int borrowed; /* a descriptor of the caller's, or -1 */
};

/* The arguments whose size is fixed. */
static const struct kind {
    char letter;
    bool read, written;
    unsigned short bytes;
} kinds[] = {
    {'T', true, false, sizeof(struct timespec[2])},
    {'M', true, false, sizeof(struct timeval[2])},
    {'U', true, false, sizeof(struct utimbuf)},
    {'S', false, true, sizeof(struct stat)},
    {'X', false, true, sizeof(struct statx)},
    {'F', false, true, sizeof(struct statfs)},
    {'I', false, true, sizeof(int)}, /* AT_HANDLE_MNT_ID_UNIQUE: 8 bytes */
};

static bool is_path(char letter)
{
    return letter == 'p' || letter == 'l' || letter == 'n';
}

/* Returns the fan_spot_how flags for the path at `at`, from its letter and the call's flags. */
static unsigned how_of(const struct fan_call *call, const char *letters, int at)
{
    size_t flags_at = strcspn(letters, "ayw");
    unsigned flags = letters[flags_at] != '\0' ? (unsigned)call->args[flags_at] : 0;
    bool follow = letters[at] == 'p';
    switch (letters[flags_at]) {
    case 'a':
        follow = follow && !(flags & AT_SYMLINK_NOFOLLOW);
        break;
    case 'y':
        follow = follow && flags & AT_SYMLINK_FOLLOW;
        break;
    case 'w':
        return follow && !(flags & IN_DONT_FOLLOW) ? FAN_SPOT_FOLLOW : 0;
    default:
        flags = 0;
    }
    return (follow ? FAN_SPOT_FOLLOW : 0u) | (flags & AT_EMPTY_PATH ? FAN_SPOT_EMPTY : 0u);
}

/* Rewrites all paths of a call to paths in the mount. The preload library may pass one path of a
 * pair relative to an output directory and the other below the output tree; here both must be the
 * mount's, because otherwise they would seem to lie in different file systems. */
static void show_all(struct fan_spots *spots)
{
    for (unsigned i = 0; i < spots->count; i++)
        fan_unskeleton(spots->spot[i].path, strlen(spots->spot[i].path), PATH_MAX);
}

bool fan_run_find(const struct fan_call *call, struct fan_spots *spots)
{
    const char *letters = fan_call_arguments(call->number);
    unsigned count = 0, found = 0, total = 0;
    for (int at = 0; letters[at] != '\0'; at++)
        total += is_path(letters[at]);
    for (int at = 0; letters[at] != '\0'; at++) {
        if (!is_path(letters[at]))
            continue;
        struct fan_spot *spot = &spots->spot[count++];
        int dirfd = at > 0 && letters[at - 1] == 'd' ? (int)call->args[at - 1] : AT_FDCWD;
        unsigned how = how_of(call, letters, at) & (total > 1 ? ~(unsigned)FAN_SPOT_EMPTY : ~0u);
        if (fan_call_find(call, dirfd, call->args[at], how, spot))
            found++;
        else if (spot->path[0] == '\0')
            return false;
    }
    spots->count = count;
    if (found > 0 && found < count)
        show_all(spots);
    return found > 0;
}

static void put_path(struct run *run, int at, char *path)
{
    run->args[at] = (long)path;
    if (at > 0 && run->letters[at - 1] == 'd')
        run->args[at - 1] = AT_FDCWD;
}

/* Allocates memory of this process for an argument. Returns 0 or -ENOMEM. */
static int make(struct run *run, int at, size_t bytes)
{
    struct buffer *buffer = &run->buffers[at];
    buffer->own = calloc(1, bytes + 1);
    if (buffer->own == NULL)
        return -ENOMEM;
    buffer->theirs = run->call->args[at];
    run->args[at] = (long)buffer->own;
    return 0;
}

static int take(struct run *run, int at, size_t bytes)
{
    int rc = make(run, at, bytes);
    return rc != 0
               ? rc
               : fan_target_read(run->call->tid, run->call->args[at], run->buffers[at].own, bytes);
}

/* Takes a buffer whose size is the next argument. read: the call reads the buffer; otherwise the
 * call writes it. */
static int take_sized(struct run *run, int at, bool read)
{
    uint64_t bytes = run->call->args[at + 1];
    if (bytes == 0 || (read && run->call->args[at] == 0))
        return 0;
    if (bytes > BUFFER_BYTES_MAX && read)
        return -E2BIG;
    if (bytes > BUFFER_BYTES_MAX)
        bytes = BUFFER_BYTES_MAX;
    run->args[at + 1] = (long)bytes;
    return read ? take(run, at, bytes) : make(run, at, bytes);
}

static int take_text(struct run *run, int at)
{
    int rc = make(run, at, PATH_MAX);
    if (rc == 0)
        rc = fan_target_text(run->call->tid, run->call->args[at], run->buffers[at].own);
    return rc < 0 ? rc : 0;
}

static int take_handle(struct run *run, int at)
{
    struct file_handle head;
    int rc = fan_target_read(run->call->tid, run->call->args[at], &head, sizeof(head));
    if (rc == 0 && head.handle_bytes > MAX_HANDLE_SZ)
        rc = -EINVAL;
    if (rc == 0)
        rc = make(run, at, sizeof(head) + MAX_HANDLE_SZ);
    if (rc == 0)
        memcpy(run->buffers[at].own, &head, sizeof(head));
    return rc;
}

static int take_kind(struct run *run, int at)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct kind *kind = &kinds[i];
        if (kind->letter != run->letters[at] || (kind->read && run->call->args[at] == 0))
            continue;
        bool wide = kind->letter == 'I' && run->call->args[4] & 1; /* AT_HANDLE_MNT_ID_UNIQUE */
        size_t bytes = wide ? sizeof(uint64_t) : kind->bytes;
        int rc = kind->read ? take(run, at, bytes) : make(run, at, bytes);
        run->buffers[at].bytes = kind->written ? bytes : 0;
        return rc;
    }
    return 0;
}

static int take_argument(struct run *run, int at)
{
    switch (run->letters[at]) {
    case 'k':
        run->borrowed = fan_target_borrow(run->call->tid, (int)run->args[at]);
        run->args[at] = run->borrowed;
        return run->borrowed < 0 ? run->borrowed : 0;
    case 'a':
    case 'y':
        run->args[at] &= ~(long)AT_EMPTY_PATH; /* the path is absolute now */
        return 0;
    case 't':
        return take_text(run, at);
    case 'i':
    case 'b':
        return take_sized(run, at, run->letters[at] == 'i');
    case 'H':
        return take_handle(run, at);
    default:
        return take_kind(run, at);
    }
}

/* Returns how many bytes of an argument to give back to the caller when the call returned `rc`. */
static size_t bytes_back(const struct run *run, int at, long rc)
{
    const struct buffer *buffer = &run->buffers[at];
    const struct file_handle *handle = (const void *)buffer->own;
    if (buffer->own == NULL)
        return 0;
    if (run->letters[at] == 'I' && rc == -EOVERFLOW)
        return buffer->bytes;
    if (run->letters[at] == 'H') /* it says the size that is needed */
        return rc == 0            ? sizeof(*handle) + handle->handle_bytes
               : rc == -EOVERFLOW ? sizeof(*handle)
                                  : 0;
    if (rc < 0)
        return 0;
    return run->letters[at] == 'b' ? (size_t)rc : buffer->bytes;
}

static long give_back(const struct run *run, long rc)
{
    for (int at = 0; run->letters[at] != '\0'; at++) {
        size_t bytes = bytes_back(run, at, rc);
        if (bytes == 0)
            continue;
        if (!fan_call_valid(run->call)) /* its number may be another process's by now */
            return -ESRCH;
        const struct buffer *buffer = &run->buffers[at];
        if (fan_target_write(run->call->tid, buffer->theirs, buffer->own, bytes) != 0)
            return -EFAULT;
    }
    return rc;
}

/* Makes the call, whose paths are set. */
static long make_call(struct run *run)
{
    long rc = 0;
    for (int at = 0; rc == 0 && run->letters[at] != '\0'; at++)
        rc = take_argument(run, at);
    if (rc == 0 && strchr(run->letters, 'n') != NULL)
        fan_call_umask(run->call);
    if (rc == 0) {
        const long *args = run->args;
        const struct fan_arguments x = {args[0], args[1], args[2], args[3], args[4], args[5]};
        rc = give_back(run, fan_call_result(fan_syscall_answer(run->call->number, &x)));
    }
    for (int at = 0; at < ARGUMENTS; at++)
        free(run->buffers[at].own);
    if (run->borrowed >= 0)
        fan_sys_close(run->borrowed);
    return rc;
}

static struct run begin(const struct fan_call *call)
{
    struct run run = {.call = call, .letters = fan_call_arguments(call->number), .borrowed = -1};
    for (int at = 0; at < ARGUMENTS; at++)
        run.args[at] = (long)call->args[at];
    return run;
}

/* Moves or removes a directory of the tree together with the mount's, so that processes in that
 * directory follow it. */
static void keep_tree(const struct fan_call *call, const struct fan_spots *spots)
{
    switch (call->number) {
#ifdef SYS_rename
    case SYS_rename:
#endif
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2:
        fan_trap_tree_move(spots->spot[0].path, spots->spot[1].path);
        break;
#ifdef SYS_rmdir
    case SYS_rmdir:
        fan_trap_tree_remove(spots->spot[0].path);
        break;
#endif
    case SYS_unlinkat:
        if (call->args[2] & AT_REMOVEDIR)
            fan_trap_tree_remove(spots->spot[0].path);
        break;
    default:
        break;
    }
}

long fan_run(const struct fan_call *call)
{
    struct fan_spots spots;
    if (!fan_run_find(call, &spots))
        return FAN_CALL_CONTINUE;
    struct run run = begin(call);
    unsigned count = 0;
    for (int at = 0; run.letters[at] != '\0'; at++) {
        if (is_path(run.letters[at]))
            put_path(&run, at, spots.spot[count++].path);
    }
    if (count > 1) /* either path may be for the node daemon */
        fan_call_ask_for(call);
    long rc = make_call(&run);
    if (rc == 0)
        keep_tree(call, &spots);
    return rc;
}

long fan_run_of(const struct fan_call *call, char *path)
{
    struct run run = begin(call);
    size_t flags_at = strcspn(run.letters, "a");
    put_path(&run, (int)strcspn(run.letters, "pln"), path);
    if (run.letters[flags_at] != '\0')
        run.args[flags_at] |= AT_SYMLINK_NOFOLLOW;
    return make_call(&run);
}
