/* Continues a walk in the output tree (output_tree.h). */
#include <errno.h>
#include <string.h>

#include "../../common/spare.h"
#include "../../common/sys.h"
#include "../machine/spelling.h"
#include "output_tree.h"

/* Removes "//" and "/./" from a path that ends at `end`, starting from the end. Returns where the
 * path begins now. */
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

/* Writes the tree path of the walk's directory, and `name` with the rest of the path, to the
 * target's buffer, which may already contain `name`. Returns the length of the directory's path or
 * -errno. */
static int64_t put(const struct fan_walk *walk, const char *name)
{
    char *buffer = walk->target->buffer;
    size_t size = strlen(name) + 1, capacity = sizeof(walk->target->buffer);
    if (size > capacity)
        return -ENAMETOOLONG;
    char *tail = memmove(buffer + capacity - size, name, size); /* small stacks */
    tail = squeeze(tail, tail + size - 1);
    size = strlen(tail) + 1;
    int64_t base = fan_tree_directory(walk->view, walk->dataset, walk->id, buffer, capacity - size);
    if (base < 0)
        return base;
    buffer[base] = '/';
    memmove(buffer + base + 1, tail, size);
    return base;
}

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

/* Asks the kernel, which cannot follow a link of the tree, what is at the end of the path. */
bool fan_tree_is_straight(const struct fan_walk *walk, int dirfd, const char *path)
{
    struct stat st;
    if (fan_has_dot_dot(path) || !fan_tree_has_links())
        return !fan_has_dot_dot(path);
    return FAN_SYS(newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (!S_ISLNK(st.st_mode) || (walk->flags & FAN_NOFOLLOW));
}

/* A component of the path in the target's buffer, which a walk goes through in the tree. start,
 * end: bytes. */
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

/* Continues at a path of the mount: `head`, then the part of the buffer from byte `rest` on. `head`
 * is absolute, or relative to the directory whose path is the first `upto` bytes of the buffer. */
static enum fan_walk_end go_on(struct fan_walk *walk, size_t upto, const char *head, size_t rest)
{
    const struct fan_text *prefix = &walk->view->prefix;
    char *buffer = walk->target->buffer;
    size_t top = fan_tree_top_bytes(walk->view, buffer);
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

/* Goes up from what is before the "..", which must be a directory. */
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

/* Follows a link. Returns 1 if it is no link, or must not be followed. */
static int follow(struct fan_walk *walk, const struct step *step, enum fan_walk_end *end)
{
    char *buffer = walk->target->buffer, kept = buffer[step->end];
    FAN_OFF_STACK(struct fan_path, link);
    /* Before a slash, open(2) follows no link either if it may make a file: it fails. */
    unsigned stays = step->slash ? FAN_MAKE | FAN_NAME : FAN_NOFOLLOW;
    if (step->last && (walk->flags & stays))
        return 1;
    buffer[step->end] = '\0';
    long bytes =
        link == NULL ? -ENOMEM : fan_sys_readlink(AT_FDCWD, buffer, link->text, sizeof(link->text));
    buffer[step->end] = kept;
    if (bytes == -EINVAL)
        return 1;
    if (bytes < 0)
        return (int)bytes;
    if (++walk->links > FAN_LINKS_MAX)
        return -ELOOP;
    bool stored = strncmp(link->text, FAN_TREE_LINK, FAN_TREE_LINK_BYTES) == 0;
    *end = go_on(walk, step->start - 1, link->text + (stored ? FAN_TREE_LINK_BYTES : 0), step->end);
    return 0;
}

/* Removes a "." from a path that continues after it. */
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

/* Looks for links and "..", component by component. The kernel reports a missing last name, but the
 * walk ends if there is more behind a missing name: a directory that is made meanwhile must not
 * lead out of the tree. */
static enum fan_walk_end look_through(struct fan_walk *walk, size_t base)
{
    char *buffer = walk->target->buffer;
    struct step step = {.end = base};
    enum fan_walk_end end = FAN_WALK_ON;
    while (next_step(buffer, &step)) {
        size_t bytes = step.end - step.start;
        const char *name = buffer + step.start;
        if (fan_is_dot(name, bytes)) {
            drop_dot(buffer, &step);
            continue;
        }
        if (fan_is_dot_dot(name, bytes) && step.last && (walk->flags & FAN_NAME))
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

/* Returns whether an entry of the tree only stands for another rank's file or directory. */
static bool is_pointer(int dirfd, const char *path, const struct stat *st)
{
    char target[FAN_TREE_POINTER_BYTES];
    if (S_ISDIR(st->st_mode))
        return (st->st_mode & 07777) == FAN_TREE_STAND_IN_MODE;
    return S_ISLNK(st->st_mode) &&
           FAN_SYS(readlinkat, dirfd, path, target, sizeof(target)) == (long)sizeof(target) &&
           memcmp(target, FAN_TREE_POINTER, sizeof(target)) == 0;
}

/* Returns whether this rank keeps the names in the directory of a path, which has no slash at its
 * end. */
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

/* Copies the path without the slashes at its end, with which the kernel would follow a link
 * there. */
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

/* Returns whether other ranks may have files in a directory. Then the daemon renames or removes it,
 * and tells those ranks. */
static bool is_visited(const struct stat *st)
{
    return S_ISDIR(st->st_mode) &&
           __atomic_load_n(&fan_job.outputs->visited, __ATOMIC_ACQUIRE) != 0;
}

/* Returns whether a path leads to an existing file of this rank. Only finds the common cases. */
static bool is_seen(const struct fan_walk *walk, int dirfd, const char *path)
{
    struct stat st;
    size_t bytes = strlen(path);
    bool plain = bytes > 0 && path[bytes - 1] != '/' && !(walk->flags & FAN_CHANGE);
    return plain && FAN_SYS(newfstatat, dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           !S_ISLNK(st.st_mode) && !is_pointer(dirfd, path, &st);
}

/* Like is_seen, for any path and any call. */
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
    if (!(walk->flags & (FAN_MAKE | FAN_NAME)))
        return true;
    bool kept = keeps(dirfd, plain->text);
    walk->target->there = !kept;
    if (walk->flags & FAN_MAKE) /* the kernel must not be told to make what is there */
        return kept || !(slash || S_ISDIR(st.st_mode));
    return kept && !is_visited(&st);
}

bool fan_tree_is_own(const struct fan_walk *walk, int dirfd, const char *path)
{
    walk->target->there = false;
    if (!fan_tree_has_ranks())
        return true;
    return !fan_has_dot_dot(path) && (is_seen(walk, dirfd, path) || is_own(walk, dirfd, path));
}

/* Ends the walk at the path in the target's buffer, which becomes a path of the mount: the daemon
 * decides what is there. */
static enum fan_walk_end beyond(struct fan_walk *walk, bool last, bool slash)
{
    char *buffer = walk->target->buffer;
    const char *rest = buffer + fan_tree_top_bytes(walk->view, buffer);
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
        int rc = fan_tree_make_counterpart(walk->view, walk->id, buffer);
        buffer[base] = '/';
        if (rc != 0)
            return fan_walk_missing(walk, rc == -ENOENT ? EIO : -rc, false);
    }
    return fan_tree_is_straight(walk, AT_FDCWD, buffer)
               ? (enum fan_walk_end)fan_tree_found(walk, AT_FDCWD, buffer)
               : look_through(walk, (size_t)base);
}
