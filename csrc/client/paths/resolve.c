#include "resolve.h"

#include <errno.h>
#include <string.h>

#include "../../common/spare.h"
#include "../files/filetable.h"
#include "../machine/spelling.h"
#include "cwd.h"
#include "linked.h"
#include "output_tree.h"
#include "walk.h"

/* Returns whether the text of an absolute path that matches no mount shows that it does not lead
 * into one. Paths of /proc and /dev, and unusual spellings, need a closer look. */
static inline bool is_far(const char *path, size_t bytes)
{
    bool kernels_own = (path[1] == 'p' && strncmp(path, "/proc/", 6) == 0) ||
                       (path[1] == 'd' && strncmp(path, "/dev/", 5) == 0);
    return !kernels_own && !fan_has_odd_part(path, bytes);
}

static bool follows_to(const struct fan_walk *walk, int dirfd, const char *path, struct fan_path *to)
{
    bool follow = !(walk->flags & FAN_NOFOLLOW);
    return fan_linked_path(dirfd, path, follow, to->text, sizeof(to->text));
}

/* Ends at a path outside to which a link of the mount led, unless links outside lead into a mount
 * again: there the kernel would find at best a skeleton. */
static __attribute__((noinline)) enum fan_walk_end back(struct fan_walk *walk, const char *path)
{
    FAN_OFF_STACK(struct fan_path, plain);
    if (plain == NULL || walk->links++ > FAN_LINKS_MAX ||
        !fan_may_lead_in(AT_FDCWD, path, !(walk->flags & FAN_NOFOLLOW)) ||
        !follows_to(walk, AT_FDCWD, path, plain))
        return fan_walk_outside(walk->target, AT_FDCWD, path);
    memcpy(walk->target->buffer, plain->text, strlen(plain->text) + 1);
    return FAN_WALK_ON;
}

static enum fan_walk_end outside_or_back(struct fan_walk *walk, const char *path)
{
    bool was_inside = walk->view != NULL;
    return was_inside ? back(walk, path) : fan_walk_outside(walk->target, AT_FDCWD, path);
}

/* Resolves an unusual spelling: first by its text, and, if that leads into a mount, as the kernel
 * resolves it. */
static enum fan_walk_end odd(struct fan_walk *walk, const char *path)
{
    FAN_OFF_STACK(struct fan_path, plain);
    const char *rest;
    if (plain == NULL)
        return fan_walk_missing(walk, ENOMEM, false);
    if (fan_normalise(path, plain->text, sizeof(plain->text)) != 0 ||
        fan_match_prefix(plain->text, &rest) == NULL)
        return outside_or_back(walk, path);
    if (walk->links++ > FAN_LINKS_MAX || !follows_to(walk, AT_FDCWD, path, plain))
        return fan_walk_outside(walk->target, AT_FDCWD, path);
    memcpy(walk->target->buffer, plain->text, strlen(plain->text) + 1);
    return FAN_WALK_ON;
}

/* Resolves a path that starts in an open directory of another rank, by the name of the directory.
 * The path "" means the directory itself. */
static enum fan_walk_end below_output(struct fan_walk *walk, int fd, const char *path)
{
    char *here = walk->target->buffer;
    long length = fan_fd_path(fd, here, sizeof(walk->target->buffer));
    if (length <= 0 || here[0] != '/')
        return fan_walk_missing(walk, length < 0 ? (int)-length : ENOENT, false);
    if (!fan_walk_put(walk->target, here, (size_t)length, path))
        return fan_walk_missing(walk, ENAMETOOLONG, false);
    return FAN_WALK_ON;
}

/* Resolves a path that starts in an open directory of this rank: by its descriptor if the path can
 * only lead to something of this rank below that directory. */
static enum fan_walk_end below_tree(struct fan_walk *walk, int fd, const char *path)
{
    if (path[0] == '\0' ||
        (fan_tree_is_own(walk, fd, path) && fan_tree_is_straight(walk, fd, path)))
        return fan_tree_found(walk, fd, path);
    char *here = walk->target->buffer;
    long length = fan_fd_path(fd, here, sizeof(walk->target->buffer));
    const char *rest;
    if (length <= 0 || here[0] != '/' || fan_match_prefix(here, &rest) == NULL)
        return fan_tree_found(walk, fd, path); /* it no longer has a name */
    if (!fan_walk_put(walk->target, here, (size_t)length, path))
        return fan_walk_missing(walk, ENAMETOOLONG, false);
    return FAN_WALK_ON;
}

static enum fan_walk_end at_file(struct fan_walk *walk, int fd, const struct fan_file *file,
                                 const char *rest)
{
    walk->view = file->view;
    walk->dataset = file->dataset;
    walk->id = 0;
    if (file->kind == FAN_FILE_OUTDIR)
        return below_output(walk, fd, rest);
    if (file->kind == FAN_FILE_OUTPUT)
        return below_tree(walk, fd, rest);
    return fan_walk_start(walk, file->view, file->id, rest) ? fan_walk_run(walk)
                                                            : fan_walk_unusable(walk);
}

/* Returns the file of the library that a path under /proc names, unless the kernel can follow the
 * path by itself; otherwise NULL. */
static const struct fan_file *file_by_proc(const char *path, int *fd)
{
    *fd = fan_proc_fd(path);
    const struct fan_file *file = *fd >= 0 ? fan_file_get(*fd) : NULL;
    return file == NULL || file->kind == FAN_FILE_NEAR ? NULL : file;
}

/* Begins a walk at an absolute path, in a mount or outside. */
static enum fan_walk_end begin(struct fan_walk *walk, const char *path)
{
    const char *rest;
    struct fan_view *view = fan_match_prefix(path, &rest);
    if (__builtin_expect(view != NULL, 1)) {
        if (!fan_walk_start(walk, view, 0, rest))
            return fan_walk_unusable(walk);
        return fan_walk_run(walk);
    }
    if (fan_has_odd_part(path, strlen(path)))
        return odd(walk, path);
    int fd;
    const struct fan_file *file = file_by_proc(path, &fd);
    if (file != NULL && !(walk->flags & FAN_NOFOLLOW)) {
        walk->view = file->view;
        if (fan_is_copied(file) && (walk->flags & FAN_CHANGE))
            return fan_walk_missing(walk, EROFS, false);
        return file->kind == FAN_FILE_OUTPUT
                   ? (enum fan_walk_end)fan_tree_found(walk, AT_FDCWD, path)
                   : at_file(walk, fd, file, "");
    }
    return outside_or_back(walk, path);
}

static __attribute__((noinline)) bool go_on(struct fan_walk *walk)
{
    enum fan_walk_end end;
    do {
        end = begin(walk, walk->target->buffer);
    } while (end == FAN_WALK_ON);
    return end;
}

/* Returns the result of a walk, after continuing at another path if need be. */
static inline bool answer(struct fan_walk *walk, enum fan_walk_end end)
{
    return __builtin_expect(end != FAN_WALK_ON, 1) ? end : go_on(walk);
}

static bool absolute(struct fan_walk *walk, const char *path)
{
    return answer(walk, begin(walk, path));
}

/* Resolves a path that starts at a directory above a mount prefix. */
static bool near_path(struct fan_walk *walk, const struct fan_view *view, size_t above,
                      const char *path)
{
    struct fan_target *target = walk->target;
    if (above == 1 && view->prefix.text[0] == '/')
        above = 0;
    if (!fan_walk_put(target, view->prefix.text, above, path))
        return false;
    return absolute(walk, target->buffer);
}

/* Resolves a relative path by the path of the working directory. */
static bool from_here(struct fan_walk *walk, const char *path)
{
    struct fan_target *target = walk->target;
    char *here = target->buffer;
    long length = fan_cwd_path(here, sizeof(target->buffer));
    return length > 0 && fan_walk_put(target, here, (size_t)length, path) &&
           absolute(walk, here);
}

static bool relative(struct fan_walk *walk, const char *path)
{
    struct fan_cwd cwd = fan_cwd_get();
    bool ours = false;
    if (cwd.kind == FAN_CWD_INSIDE) {
        if (!fan_walk_start(walk, cwd.view, cwd.value, path))
            return fan_walk_unusable(walk);
        return answer(walk, fan_walk_run(walk));
    }
    if (cwd.kind == FAN_CWD_OUTPUT && fan_tree_is_own(walk, AT_FDCWD, path) &&
        fan_tree_is_straight(walk, AT_FDCWD, path)) {
        walk->view = cwd.view;
        return fan_tree_found(walk, AT_FDCWD, path);
    }
    if (cwd.kind == FAN_CWD_NEAR)
        ours = near_path(walk, cwd.view, cwd.value, path);
    else if (cwd.kind == FAN_CWD_OUTPUT || fan_has_dot_dot(path))
        ours = from_here(walk, path);
    return ours || walk->view != NULL ? ours : fan_walk_outside(walk->target, AT_FDCWD, path);
}

static bool below_fd(struct fan_walk *walk, int dirfd, const char *path)
{
    const struct fan_file *file = fan_file_get(dirfd);
    if (file == NULL)
        return fan_walk_outside(walk->target, dirfd, path);
    if (file->kind == FAN_FILE_NEAR) {
        bool ours = near_path(walk, file->view, file->id, path);
        return ours || walk->view != NULL ? ours : fan_walk_outside(walk->target, dirfd, path);
    }
    if (path[0] != '\0' || file->kind == FAN_FILE_OUTPUT)
        return answer(walk, at_file(walk, dirfd, file, path));
    walk->view = file->view;
    walk->dataset = file->dataset;
    walk->id = file->kind == FAN_FILE_OUTDIR ? 0 : file->id;
    if (!(walk->flags & FAN_EMPTY_PATH))
        return fan_walk_missing(walk, ENOENT, false);
    return file->kind == FAN_FILE_OUTDIR ? answer(walk, below_output(walk, dirfd, ""))
                                         : fan_walk_found(walk, false);
}

/* Returns whether strlen may read the address: it is neither NULL nor in the kernel's half. */
static bool plausible(const char *path)
{
    return (uintptr_t)path >= 4096 && (intptr_t)path > 0;
}

/* Follows links outside. Returns whether they lead into a mount. A link there may have led out
 * again. */
static bool locate_linked(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    FAN_OFF_STACK(struct fan_path, plain);
    struct fan_walk walk = {.target = target, .flags = flags};
    if (plain == NULL || !follows_to(&walk, dirfd, path, plain))
        return false;
    memcpy(target->buffer, plain->text, strlen(plain->text) + 1);
    absolute(&walk, target->buffer);
    return true;
}

static bool locate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    struct fan_walk walk = {.target = target, .flags = flags};
    bool ours;
    if (path[0] == '/')
        ours = absolute(&walk, path);
    else if (dirfd != AT_FDCWD)
        ours = below_fd(&walk, dirfd, path);
    else if (path[0] != '\0')
        ours = relative(&walk, path);
    else
        ours = fan_walk_outside(target, dirfd, path);
    if ((ours || target->where == FAN_TREE) && strlen(path) >= PATH_MAX)
        return fan_walk_missing(&walk, ENAMETOOLONG, false);
    return ours;
}

static inline bool inside(struct fan_view *view, const char *rest, unsigned flags,
                          struct fan_target *target)
{
    struct fan_walk walk = {.target = target, .flags = flags};
    return fan_walk_start(&walk, view, 0, rest) ? answer(&walk, fan_walk_run(&walk))
                                                : fan_walk_unusable(&walk);
}

bool fan_locate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    target->restarts = 0;
    target->there = false;
    if (fan_job.view_count == 0 || !plausible(path))
        return fan_walk_outside(target, dirfd, path);
    const char *rest;
    size_t bytes = path[0] == '/' ? strlen(path) : PATH_MAX;
    struct fan_view *view = bytes < PATH_MAX ? fan_match_bytes(path, bytes, &rest) : NULL;
    if (view == NULL && bytes < PATH_MAX && is_far(path, bytes))
        fan_walk_outside(target, AT_FDCWD, path);
    else if (view != NULL ? inside(view, rest, flags, target) : locate(dirfd, path, flags, target))
        return true;
    if (target->where == FAN_TREE)
        return false;
    bool followed = target->path != path; /* a link led out of a mount */
    if (!(flags & FAN_THROUGH) || followed || path[0] == '\0' ||
        !fan_may_lead_in(dirfd, path, !(flags & FAN_NOFOLLOW)))
        return false;
    return locate_linked(dirfd, path, flags, target) && !fan_target_is_real(target);
}

bool fan_locate_change(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    return fan_locate(dirfd, path, flags | FAN_THROUGH | FAN_CHANGE, target);
}

bool fan_relocate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    target->restarts = 0;
    target->there = false;
    if (fan_job.view_count == 0 || target->where == FAN_TREE || !plausible(path) || path[0] == '\0')
        return false;
    bool from_directory = dirfd != AT_FDCWD && path[0] != '/' &&
                          (fan_has_dot_dot(path) || !fan_is_far_fd(dirfd));
    return (from_directory || fan_linked(dirfd, path)) &&
           locate_linked(dirfd, path, flags, target);
}

bool fan_locate_again(struct fan_target *target, const char *path, unsigned flags)
{
    struct fan_walk walk = {.target = target, .flags = flags, .view = target->view};
    size_t bytes = strlen(path);
    if (walk.view != NULL)
        walk.dataset = fan_view_dataset(walk.view);
    if (++target->restarts > FAN_LINKS_MAX)
        return fan_walk_missing(&walk, ELOOP, false);
    if (path[0] != '/' || bytes >= sizeof(target->buffer))
        return fan_walk_missing(&walk, EIO, false);
    memmove(target->buffer, path, bytes + 1);
    return absolute(&walk, target->buffer);
}

int64_t fan_target_path(const struct fan_target *target, char *buffer, size_t capacity)
{
    const struct fan_text *prefix = &target->view->prefix;
    if (target->where == FAN_INPUT)
        return fan_full_path(target->view, target->dataset, target->id, buffer, capacity);
    if (target->where == FAN_TREE)
        return fan_tree_path(target, buffer, capacity);
    if (target->where != FAN_OUTPUT && target->where != FAN_BEYOND)
        return -target->error;
    bool fits = fan_join(buffer, capacity, prefix->text, prefix->bytes, target->path);
    return fits ? (int64_t)strlen(buffer) : -ENAMETOOLONG;
}
