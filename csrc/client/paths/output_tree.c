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
#include "skeleton.h"

/* Another path of a view's tree, through a parked descriptor: for files whose path fits with the
 * mount's prefix, but not with the tree's own path. */
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

/* Writes such a path. Returns its length, or 0 if there is none. */
static size_t short_way(const struct fan_view *view, struct short_way *way)
{
    int fd = top_of(view);
    return fd < 0 ? 0 : fan_fd_link(fd, way->text);
}

size_t fan_tree_top_bytes(const struct fan_view *view, const char *path)
{
    const size_t start = sizeof(FAN_FD_LINKS) - 1;
    if (strncmp(path, FAN_FD_LINKS, start) == 0)
        return (size_t)(fan_component_end(path + start) - path);
    return view->outputs.bytes;
}

/* Makes a directory with a mode that does not depend on the umask and distinguishes it from a
 * directory that a program made. An earlier process may have been killed before it set the mode, so
 * sets the mode of an existing directory, too, except in a job of several ranks, where the daemon
 * sets other modes. */
static int make_directory(const char *path)
{
    long rc = FAN_SYS(mkdirat, AT_FDCWD, path, 0700);
    if (rc == -EEXIST && fan_tree_has_ranks())
        return 0;
    if (rc == 0 || rc == -EEXIST)
        rc = FAN_SYS(fchmodat, AT_FDCWD, path, FAN_TREE_COUNTERPART_MODE);
    return (int)rc;
}

int64_t fan_tree_directory(const struct fan_view *view, const struct fan_dataset *dataset,
                           uint64_t id, char *path, size_t capacity)
{
    int64_t length = fan_path_below(&view->outputs, dataset, id, path, capacity);
    struct short_way way;
    struct fan_text top = {way.text, length == -ENAMETOOLONG ? short_way(view, &way) : 0};
    return top.bytes > 0 ? fan_path_below(&top, dataset, id, path, capacity) : length;
}

/* Sets the bit after the counterpart exists, so that every process that sees the bit finds the
 * counterpart. In a job of several ranks the daemon sets the bits, because each rank has to set its
 * own before one makes an output there. */
int fan_tree_make_counterpart(struct fan_view *view, uint64_t id, char *path)
{
    bool ranks = fan_tree_has_ranks();
    if (!ranks && fan_view_touched(view, id))
        return 0;
    int rc = fan_make_directories(path, fan_tree_top_bytes(view, path), make_directory);
    if (rc == 0 && !ranks)
        atomic_fetch_or_explicit(&view->touched[id / 64], UINT64_C(1) << id % 64,
                                 memory_order_release);
    return rc;
}

int fan_tree_counterpart(struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                         char *path, size_t capacity)
{
    int64_t length = fan_path_below(&view->outputs, dataset, id, path, capacity);
    return length < 0 ? (int)length : fan_tree_make_counterpart(view, id, path);
}

int fan_tree_ask(struct fan_target *target)
{
    const struct fan_text *prefix = &target->view->prefix;
    FAN_OFF_STACK(struct fan_path, path);
    int64_t length = path == NULL ? -ENOMEM : fan_tree_path(target, path->text, sizeof(path->text));
    if (length < 0)
        return (int)length;
    if (!fan_begins_with(path->text, (size_t)length, prefix))
        return -ENOENT; /* it no longer has a name */
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
    if (target->path[0] != '/' || fan_tree_top_bytes(target->view, target->path) != top ||
        target->path[top] != '/')
        return -1;
    *path = target->path + top + 1;
    return top_of(target->view);
}

int64_t fan_tree_short_path(const struct fan_target *target, char *buffer, size_t capacity)
{
    struct short_way way;
    size_t bytes = short_way(target->view, &way),
           top = fan_tree_top_bytes(target->view, target->path);
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

/* Writes the path of a descriptor that /proc names. */
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

/* Sets the flag before the link exists, so that every process that can meet the link looks for
 * links. */
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
