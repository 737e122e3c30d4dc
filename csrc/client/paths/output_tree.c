#include "output_tree.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <sys/sysmacros.h>

#include "../../common/descriptor.h"
#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../machine/park.h"
#include "../machine/spelling.h"
#include "../machine/vfork.h"
#include "cwd.h"
#include "linked.h"

bool fan_tree_found(const struct fan_walk *walk, int dirfd, const char *path)
{
    struct fan_target *target = walk->target;
    if (walk->flags & FAN_CHANGE)
        fan_tree_changed();
    target->where = FAN_TREE;
    target->view = walk->view;
    target->dirfd = dirfd;
    target->path = path;
    return false;
}

/* Another path of a view's tree, by a parked descriptor: for paths for which the mount's prefix
 * leaves room, and the tree's own does not. */
struct short_way {
    char text[FAN_FD_LINK_BYTES];
};

static int top_of(const struct fan_view *view)
{
    static atomic_int holders[FAN_JOB_MOUNTS_MAX];
    atomic_int *holder = &holders[view->number];
    int fd = fan_parked(holder);
    if (fd >= 0 || fan_in_vfork_child())
        return fd;
    fd = fan_sys_openat(AT_FDCWD, view->outputs.text, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);
    return fd < 0 ? fd : fan_park(fd, holder);
}

/* Its length; 0: there is none. */
static size_t short_way(const struct fan_view *view, struct short_way *way)
{
    int fd = top_of(view);
    return fd < 0 ? 0 : fan_fd_link(fd, way->text);
}

/* How many bytes of a path in the tree stand for the mount's root. */
static size_t top_bytes(const struct fan_view *view, const char *path)
{
    const size_t start = sizeof(FAN_FD_LINKS) - 1;
    if (strncmp(path, FAN_FD_LINKS, start) == 0)
        return (size_t)(fan_component_end(path + start) - path);
    return view->outputs.bytes;
}

/* Writes the path of directory `id` in the tree at `top`. Its length or -errno. */
static int64_t directory_path(const struct fan_text *top, const struct fan_dataset *dataset,
                              uint64_t id, char *path, size_t capacity)
{
    size_t start = top->bytes;
    if (start + 2 > capacity)
        return -ENAMETOOLONG;
    memcpy(path, top->text, start);
    path[start++] = '/';
    int64_t bytes = fan_index_path(&dataset->index, id, path + start, capacity - start - 1);
    if (bytes < 0)
        return bytes == -ERANGE ? -ENAMETOOLONG : bytes;
    size_t length = bytes > 0 ? start + (size_t)bytes : start - 1;
    path[length] = '\0';
    return (int64_t)length;
}

/* Its mode, whatever the umask is, tells it from a directory that a program made. Who made it may
 * have been killed before that; the daemon of several ranks has other modes to set. */
static int make_directory(const char *path)
{
    long rc = FAN_SYS(mkdirat, AT_FDCWD, path, 0700);
    if (rc == -EEXIST && fan_tree_has_ranks())
        return 0;
    if (rc == 0 || rc == -EEXIST)
        rc = FAN_SYS(fchmodat, AT_FDCWD, path, FAN_TREE_COUNTERPART_MODE);
    return (int)rc;
}

/* Makes a directory and those above it, down from `start` bytes, which are there. */
static int make_directories(char *path, size_t start)
{
    int rc = make_directory(path);
    for (char *slash = path + start; rc == -ENOENT && (slash = strchr(slash + 1, '/')) != NULL;) {
        *slash = '\0';
        rc = make_directory(path);
        *slash = '/';
        rc = rc == 0 ? -ENOENT : rc;
    }
    return rc == -ENOENT ? make_directory(path) : rc;
}

/* The bit is set once the counterpart is there, so that whoever sees it finds that. Of several
 * ranks each has to set it before one makes an output there: the daemon does that. */
static int make_counterpart(struct fan_view *view, uint64_t id, char *path)
{
    bool ranks = fan_tree_has_ranks();
    if (!ranks && fan_view_touched(view, id))
        return 0;
    int rc = make_directories(path, top_bytes(view, path));
    if (rc == 0 && !ranks)
        atomic_fetch_or_explicit(&view->touched[id / 64], UINT64_C(1) << id % 64,
                                 memory_order_release);
    return rc;
}

int fan_tree_counterpart(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                         char *path, size_t capacity)
{
    int64_t length = directory_path(&view->outputs, dataset, id, path, capacity);
    return length < 0 ? (int)length : make_counterpart(view, id, path);
}

/* Takes "//" and "/./" out of a path that ends at `end`, from the back. Where it begins now. */
static char *squeeze(char *path, char *end)
{
    char *to = end;
    for (char *from = end; from > path;) {
        char c = *--from;
        bool again = c == '/' && *to == '/';
        bool dot = c == '.' && *to == '/' && (from == path || from[-1] == '/');
        if (!again && !dot)
            *--to = c;
    }
    return to;
}

/* Puts the path in the tree of the directory stood in, and `name` with all behind it, into the
 * target's buffer, where `name` may lie already. The length of the former or -errno. */
static int64_t put(const struct fan_walk *walk, const char *name)
{
    char *buffer = walk->target->buffer;
    size_t size = strlen(name) + 1, capacity = sizeof(walk->target->buffer);
    if (size > capacity)
        return -ENAMETOOLONG;
    char *tail = memmove(buffer + capacity - size, name, size); /* programs have small stacks */
    tail = squeeze(tail, tail + size - 1);
    size = strlen(tail) + 1;
    int64_t base =
        directory_path(&walk->view->outputs, walk->dataset, walk->id, buffer, capacity - size);
    if (base == -ENAMETOOLONG) {
        struct short_way way;
        struct fan_text top = {way.text, short_way(walk->view, &way)};
        if (top.bytes > 0)
            base = directory_path(&top, walk->dataset, walk->id, buffer, capacity - size);
    }
    if (base < 0)
        return base;
    buffer[base] = '/';
    memmove(buffer + base + 1, tail, size);
    return base;
}

/* The kernel follows no link of the tree, and says what is at the end of a path without one. */
bool fan_tree_is_straight(const struct fan_walk *walk, int dirfd, const char *path)
{
    struct stat st;
    if (fan_has_dot_dot(path) || !fan_tree_has_links())
        return !fan_has_dot_dot(path);
    return FAN_SYS(newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (!S_ISLNK(st.st_mode) || (walk->flags & FAN_NOFOLLOW));
}

/* A component of the path in the target's buffer, on its way through the tree. start, end: bytes.
 */
struct step {
    size_t start, end;
    bool last, slash;
};

static bool next_step(const char *path, struct step *step)
{
    size_t at = step->end;
    while (path[at] == '/')
        at++;
    if (path[at] == '\0')
        return false;
    step->start = at;
    step->end = (size_t)(fan_component_end(path + at) - path);
    const char *left = path + step->end;
    while (*left == '/')
        left++;
    step->last = *left == '\0';
    step->slash = path[step->end] == '/';
    return true;
}

/* Goes on at a path of the mount: `head`, relative to the directory that ends before `upto` bytes
 * of the buffer, or absolute; then what is left behind `rest` bytes. */
static enum fan_walk_end go_on(struct fan_walk *walk, size_t upto, const char *head, size_t rest)
{
    const struct fan_text *prefix = &walk->view->prefix;
    char *buffer = walk->target->buffer;
    size_t top = top_bytes(walk->view, buffer);
    FAN_OFF_STACK(struct fan_path, room);
    if (room == NULL)
        return fan_walk_missing(walk, ENOMEM, false);
    char *end = room->text;
    size_t bytes = strlen(head), left = strlen(buffer + rest);
    size_t inside = upto > top ? upto - top : 0;
    if (prefix->bytes + inside + bytes + left + 3 > sizeof(room->text))
        return fan_walk_missing(walk, ENAMETOOLONG, false);
    if (head[0] != '/') {
        end = mempcpy(end, prefix->text, prefix->bytes);
        end = mempcpy(end, buffer + top, inside);
        *end++ = '/';
    }
    end = mempcpy(end, head, bytes);
    memcpy(end, buffer + rest, left + 1);
    memcpy(buffer, room->text, (size_t)(end - room->text) + left + 1);
    return FAN_WALK_ON;
}

/* ".." of what lies before it, which has to be a directory. */
static enum fan_walk_end go_up(struct fan_walk *walk, const struct step *step)
{
    char *buffer = walk->target->buffer;
    struct stat st;
    size_t upto = step->start;
    while (upto > 0 && buffer[upto - 1] == '/')
        upto--;
    char kept = buffer[upto];
    buffer[upto] = '\0';
    long rc = FAN_SYS(newfstatat, AT_FDCWD, buffer, &st, AT_SYMLINK_NOFOLLOW);
    if (rc == 0 && S_ISDIR(st.st_mode))
        rc = FAN_SYS(faccessat, AT_FDCWD, buffer, X_OK);
    size_t above = (size_t)(strrchr(buffer, '/') - buffer);
    buffer[upto] = kept;
    if (rc != 0 || !S_ISDIR(st.st_mode))
        return fan_walk_missing(walk, rc != 0 ? (int)-rc : ENOTDIR, false);
    return go_on(walk, above, "", step->end);
}

/* 1: it is no link, or is not to be followed. */
static int follow(struct fan_walk *walk, const struct step *step, enum fan_walk_end *end)
{
    char *buffer = walk->target->buffer, kept = buffer[step->end];
    FAN_OFF_STACK(struct fan_path, link);
    bool changes = walk->flags & FAN_CHANGE; /* which no slash makes follow the last name */
    if (step->last && (walk->flags & FAN_NOFOLLOW) && (changes || !step->slash))
        return 1;
    buffer[step->end] = '\0';
    long bytes = link == NULL
                     ? -ENOMEM
                     : FAN_SYS(readlinkat, AT_FDCWD, buffer, link->text, sizeof(link->text) - 1);
    buffer[step->end] = kept;
    if (bytes == -EINVAL)
        return 1;
    if (bytes < 0)
        return (int)bytes;
    if (++walk->links > FAN_LINKS_MAX)
        return -ELOOP;
    link->text[bytes] = '\0';
    bool stored = strncmp(link->text, FAN_TREE_LINK, FAN_TREE_LINK_BYTES) == 0;
    *end = go_on(walk, step->start - 1, link->text + (stored ? FAN_TREE_LINK_BYTES : 0), step->end);
    return 0;
}

/* Takes a "." out of a path that goes on behind it. */
static void drop_dot(char *path, struct step *step)
{
    const char *left = path + step->end;
    if (step->last)
        return;
    while (*left == '/')
        left++;
    memmove(path + step->start, left, strlen(left) + 1);
    step->end = step->start - 1;
}

/* Looks for links and "..", component by component. What is missing the kernel says, but for what
 * lies behind it: a directory that is made meanwhile must not lead out of the tree. */
static enum fan_walk_end look_through(struct fan_walk *walk, size_t base)
{
    char *buffer = walk->target->buffer;
    struct step step = {.end = base};
    enum fan_walk_end end = FAN_WALK_ON;
    while (next_step(buffer, &step)) {
        size_t bytes = step.end - step.start;
        const char *name = buffer + step.start;
        bool removes = (walk->flags & FAN_CHANGE) && (walk->flags & FAN_NOFOLLOW);
        if (fan_is_dot(name, bytes)) {
            drop_dot(buffer, &step);
            continue;
        }
        if (fan_is_dot_dot(name, bytes) && step.last && removes)
            continue;
        if (fan_is_dot_dot(name, bytes))
            return go_up(walk, &step);
        int rc = follow(walk, &step, &end);
        if (rc == 0)
            return end;
        if (rc < 0 && (rc == -ELOOP || rc == -ENOMEM || fan_has_dot_dot(buffer + step.end)))
            return fan_walk_missing(walk, -rc, false);
        if (rc < 0)
            break;
    }
    return fan_tree_found(walk, AT_FDCWD, buffer);
}

/* Whether something in the tree only says that another rank has it. */
static bool is_pointer(int dirfd, const char *path, const struct stat *st)
{
    char target[FAN_TREE_POINTER_BYTES];
    if (S_ISDIR(st->st_mode))
        return (st->st_mode & 07777) == FAN_TREE_STAND_IN_MODE;
    return S_ISLNK(st->st_mode) &&
           FAN_SYS(readlinkat, dirfd, path, target, sizeof(target)) == (long)sizeof(target) &&
           memcmp(target, FAN_TREE_POINTER, sizeof(target)) == 0;
}

/* Whether this rank keeps the names in the directory of a path, which has no slash at its end. */
static bool keeps(int dirfd, char *path)
{
    struct stat st;
    char *slash = strrchr(path, '/'), *end = slash != NULL ? slash : path;
    char kept = *end;
    *end = '\0';
    long rc = FAN_SYS(newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH);
    *end = kept;
    unsigned mode = st.st_mode & 07777;
    return rc == 0 && S_ISDIR(st.st_mode) && mode != FAN_TREE_STAND_IN_MODE &&
           mode != FAN_TREE_COUNTERPART_MODE;
}

/* The same path without slashes at its end: a link there would be followed. */
static bool copy_plain(struct fan_path *to, const char *path, bool *slash)
{
    size_t bytes = strlen(path);
    *slash = bytes > 0 && path[bytes - 1] == '/';
    while (bytes > 0 && path[bytes - 1] == '/')
        bytes--;
    if (bytes == 0 || bytes >= sizeof(to->text))
        return false;
    memcpy(to->text, path, bytes);
    to->text[bytes] = '\0';
    return true;
}

/* A directory that others may have something in is renamed or removed by the daemon, which tells
 * them. */
static bool is_visited(const struct stat *st)
{
    return S_ISDIR(st->st_mode) &&
           __atomic_load_n(&fan_job.outputs->visited, __ATOMIC_ACQUIRE) != 0;
}

/* Whether what a path leads to is there, and this rank's; as most looks find it. */
static bool is_seen(const struct fan_walk *walk, int dirfd, const char *path)
{
    struct stat st;
    size_t bytes = strlen(path);
    bool plain = bytes > 0 && path[bytes - 1] != '/' && !(walk->flags & FAN_CHANGE);
    return plain && FAN_SYS(newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           !S_ISLNK(st.st_mode) && !is_pointer(dirfd, path, &st);
}

/* The same, of any path and any call. */
static __attribute__((noinline)) bool is_own(const struct fan_walk *walk, int dirfd,
                                             const char *path)
{
    struct stat st;
    bool slash, stays = walk->flags & FAN_NOFOLLOW;
    FAN_OFF_STACK(struct fan_path, plain);
    if (plain == NULL || !copy_plain(plain, path, &slash))
        return false;
    long rc = FAN_SYS(newfstatat, dirfd, plain->text, &st, AT_SYMLINK_NOFOLLOW);
    if (rc == -ENOENT || rc == -ENOTDIR)
        return keeps(dirfd, plain->text);
    if (rc != 0)
        return true;
    if (is_pointer(dirfd, plain->text, &st) || (S_ISLNK(st.st_mode) && (slash || !stays)))
        return false;
    bool kept = !(walk->flags & FAN_CHANGE) || keeps(dirfd, plain->text);
    if (walk->flags & FAN_MAKE)
        walk->target->there = !kept;
    bool named = stays && (walk->flags & FAN_CHANGE) && !(walk->flags & FAN_MAKE);
    return !named || (kept && !is_visited(&st));
}

bool fan_tree_is_own(const struct fan_walk *walk, int dirfd, const char *path)
{
    walk->target->there = false;
    if (!fan_tree_has_ranks())
        return true;
    return !fan_has_dot_dot(path) && (is_seen(walk, dirfd, path) || is_own(walk, dirfd, path));
}

/* The path in the target's buffer, as it is in the mount, is the daemon's to say. */
static enum fan_walk_end beyond(struct fan_walk *walk, bool last, bool slash)
{
    char *buffer = walk->target->buffer;
    const char *rest = buffer + top_bytes(walk->view, buffer);
    rest += *rest == '/';
    memmove(buffer, rest, strlen(rest) + 1);
    return fan_walk_beyond(walk, last, slash);
}

enum fan_walk_end fan_tree_walk(struct fan_walk *walk, const char *name, bool slash)
{
    const unsigned makes = FAN_CHANGE | FAN_MAKE;
    bool last = *walk->rest == '\0'; /* the name is in the input directory itself */
    int64_t base = put(walk, name);
    char *buffer = walk->target->buffer;
    if (base < 0)
        return fan_walk_missing(walk, (int)-base, false);
    if (!fan_tree_is_own(walk, AT_FDCWD, buffer))
        return beyond(walk, last, slash);
    if (last && (walk->flags & makes) == makes) {
        buffer[base] = '\0';
        int rc = make_counterpart(walk->view, walk->id, buffer);
        buffer[base] = '/';
        if (rc != 0)
            return fan_walk_missing(walk, rc == -ENOENT ? EIO : -rc, false);
    }
    return fan_tree_is_straight(walk, AT_FDCWD, buffer)
               ? (enum fan_walk_end)fan_tree_found(walk, AT_FDCWD, buffer)
               : look_through(walk, (size_t)base);
}

int fan_tree_ask(struct fan_target *target)
{
    const struct fan_text *prefix = &target->view->prefix;
    FAN_OFF_STACK(struct fan_path, path);
    int64_t length = path == NULL ? -ENOMEM : fan_tree_path(target, path->text, sizeof(path->text));
    if (length < 0)
        return (int)length;
    if (!fan_begins_with(path->text, (size_t)length, prefix))
        return -ENOENT; /* it has no name any more */
    const char *rest = path->text + prefix->bytes;
    rest += *rest == '/';
    memcpy(target->buffer, rest, strlen(rest) + 1);
    target->where = FAN_BEYOND;
    target->path = target->buffer;
    target->creatable = false;
    target->slash = false;
    return 0;
}

int fan_tree_top(const struct fan_target *target, const char **path)
{
    size_t top = target->view->outputs.bytes;
    if (target->path[0] != '/' || top_bytes(target->view, target->path) != top ||
        target->path[top] != '/')
        return -1;
    *path = target->path + top + 1;
    return top_of(target->view);
}

int64_t fan_tree_short_path(const struct fan_target *target, char *buffer, size_t capacity)
{
    struct short_way way;
    size_t bytes = short_way(target->view, &way), top = top_bytes(target->view, target->path);
    bool fits = bytes > 0 && target->path[0] == '/' &&
                fan_join(buffer, capacity, way.text, bytes,
                         target->path + top + (target->path[top] == '/'));
    return fits ? (int64_t)strlen(buffer) : -ENAMETOOLONG;
}

struct fan_view *fan_tree_match_short(const char *path, const char **rest)
{
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        struct short_way way;
        size_t bytes = short_way(&fan_job.views[i], &way);
        if (bytes == 0 || strncmp(path, way.text, bytes) != 0 || path[bytes] != '/')
            continue;
        *rest = path + bytes + 1;
        return &fan_job.views[i];
    }
    return NULL;
}

/* Of a descriptor, as /proc names it. */
static int64_t path_by_proc(const char *path, char *buffer, size_t capacity)
{
    int fd = fan_sys_openat(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    long length = fd < 0 ? fd : fan_fd_path(fd, buffer, capacity);
    if (fd >= 0)
        fan_sys_close(fd);
    return length;
}

int64_t fan_tree_path(const struct fan_target *target, char *buffer, size_t capacity)
{
    const char *path = target->path, *rest;
    const struct fan_text *prefix = &target->view->prefix;
    if (fan_tree_match_short(path, &rest) != NULL)
        return fan_join(buffer, capacity, prefix->text, prefix->bytes, rest)
                   ? (int64_t)strlen(buffer)
                   : -ENAMETOOLONG;
    if (path[0] == '/' && !fan_begins_with(path, strlen(path), &target->view->outputs))
        return path_by_proc(path, buffer, capacity);
    if (path[0] != '/') {
        long length = target->dirfd == AT_FDCWD ? fan_cwd_path(buffer, capacity)
                                                : fan_fd_path(target->dirfd, buffer, capacity);
        if (length < 0 || path[0] == '\0')
            return length;
        return fan_join(buffer, capacity, buffer, (size_t)length, path) ? (int64_t)strlen(buffer)
                                                                        : -ENAMETOOLONG;
    }
    size_t bytes = strlen(path);
    if (bytes + 1 > capacity)
        return -ENAMETOOLONG;
    memmove(buffer, path, bytes + 1);
    return fan_unskeleton(buffer, bytes, capacity);
}

void fan_tree_show(const struct fan_view *view, struct stat *st)
{
    st->st_dev = view->device;
    st->st_ino = fan_tree_inode(st->st_ino);
    if (S_ISLNK(st->st_mode) && st->st_size > FAN_TREE_LINK_BYTES)
        st->st_size -= FAN_TREE_LINK_BYTES;
}

void fan_tree_show_statx(const struct fan_view *view, struct statx *stx)
{
    stx->stx_dev_major = major(view->device);
    stx->stx_dev_minor = minor(view->device);
    stx->stx_ino = fan_tree_inode(stx->stx_ino);
    if (S_ISLNK(stx->stx_mode) && stx->stx_size > FAN_TREE_LINK_BYTES)
        stx->stx_size -= FAN_TREE_LINK_BYTES;
}

/* The bit is set before the link is there, so that whoever can meet the link looks for it. */
int fan_tree_store_link(const char *target, char stored[PATH_MAX])
{
    size_t bytes = strlen(target);
    if (bytes + FAN_TREE_LINK_BYTES + 1 > PATH_MAX)
        return -ENAMETOOLONG;
    memcpy(mempcpy(stored, FAN_TREE_LINK, FAN_TREE_LINK_BYTES), target, bytes + 1);
    __atomic_store_n(&fan_job.outputs->links, 1, __ATOMIC_SEQ_CST);
    return 0;
}

void fan_tree_begin_move(void)
{
    __atomic_fetch_add(&fan_job.outputs->moves_begun, 1, __ATOMIC_SEQ_CST);
}

void fan_tree_end_move(void)
{
    __atomic_fetch_add(&fan_job.outputs->moves_done, 1, __ATOMIC_SEQ_CST);
    fan_tree_changed();
}
