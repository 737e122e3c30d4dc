#include "resolve.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/sys.h"
#include "cwd.h"
#include "filetable.h"
#include "../format/pack_format.h"
#include "linked.h"
#include "spelling.h"

enum { LINKS_MAX = 40 };

/* A walk in progress: standing in directory `id` with `rest` to go. */
struct walk {
    struct fan_target *target;
    struct fan_view *view;
    struct fan_dataset *dataset;
    uint64_t id;
    uint64_t hash;
    const char *rest;
    unsigned links;
    unsigned flags;
}; /* view: NULL until the walk has entered a mount */

static bool begins(const char *path, const struct fan_text *prefix)
{
    return prefix->bytes > 0 && strncmp(path, prefix->text, prefix->bytes) == 0 &&
           (path[prefix->bytes] == '/' || path[prefix->bytes] == '\0');
}

struct fan_view *fan_match_prefix(const char *path, const char **rest)
{
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        struct fan_view *view = &fan_job.views[i];
        const struct fan_text *found = begins(path, &view->prefix)  ? &view->prefix
                                       : begins(path, &view->alias) ? &view->alias
                                                                    : NULL;
        if (found != NULL) {
            *rest = path + found->bytes;
            while (**rest == '/')
                (*rest)++;
            return view;
        }
    }
    return NULL;
}

static bool outside(struct fan_target *target, int dirfd, const char *path)
{
    target->where = FAN_OUTSIDE;
    target->dirfd = dirfd;
    target->path = path;
    return false;
}

static bool missing_name(const struct walk *walk, int error, bool creatable, bool slash)
{
    struct fan_target *target = walk->target;
    target->where = FAN_MISSING;
    target->view = walk->view;
    target->dataset = walk->dataset;
    target->id = walk->id;
    target->error = error;
    target->creatable = creatable;
    target->slash = slash;
    return true;
}

static bool missing(const struct walk *walk, int error, bool creatable)
{
    return missing_name(walk, error, creatable, false);
}

static bool found(const struct walk *walk, bool slash)
{
    struct fan_target *target = walk->target;
    target->where = FAN_INPUT;
    target->view = walk->view;
    target->dataset = walk->dataset;
    target->id = walk->id;
    target->record = &walk->dataset->index.records[walk->id];
    target->slash = slash;
    return true;
}

static bool start_walk(struct walk *walk, struct fan_view *view, uint64_t id, const char *rest)
{
    walk->view = view;
    walk->dataset = fan_view_dataset(view);
    walk->id = id;
    walk->hash = FAN_PATH_HASH_ROOT;
    walk->rest = rest;
    return walk->dataset != NULL &&
           (id == 0 || fan_index_path_hash(&walk->dataset->index, id, &walk->hash) == 0);
}

/* The index cannot be mapped: for want of a descriptor, or for good. */
static bool unusable(const struct walk *walk)
{
    int fd = fan_sys_openat(AT_FDCWD, fan_job.directory.text, O_PATH | O_CLOEXEC, 0);
    if (fd >= 0)
        fan_sys_close(fd);
    return missing(walk, fd == -EMFILE || fd == -ENFILE ? -fd : EIO, false);
}

static bool absolute(struct walk *walk, const char *path);

/* Puts `head` "/" `tail` into the target's buffer; tail may lie in the buffer already. */
static bool put(struct fan_target *target, const char *head, size_t head_bytes, const char *tail)
{
    return fan_join(target->buffer, sizeof(target->buffer), head, head_bytes, tail);
}

/* ".." of the mount's root: goes on outside, by the prefix's own parent. */
static bool leave(struct walk *walk)
{
    const struct fan_text *prefix = &walk->view->prefix;
    size_t up = prefix->bytes;
    while (up > 1 && prefix->text[up - 1] != '/')
        up--;
    up = up > 1 ? up - 1 : 0;
    if (!put(walk->target, prefix->text, up, walk->rest))
        return missing(walk, ENAMETOOLONG, false);
    if (walk->target->buffer[0] == '\0')
        memcpy(walk->target->buffer, "/", 2);
    return absolute(walk, walk->target->buffer);
}

/* Replaces a link by its target. 0 to go on walking; else the walk has ended with *answer. */
static int follow(struct walk *walk, const struct fan_record *link, bool *answer)
{
    const char *to;
    size_t bytes;
    if (++walk->links > LINKS_MAX) {
        *answer = missing(walk, ELOOP, false);
        return 1;
    }
    if (fan_index_target(&walk->dataset->index, link, &to, &bytes) != 0) {
        *answer = missing(walk, EIO, false);
        return 1;
    }
    if (!put(walk->target, to, bytes, walk->rest)) {
        *answer = missing(walk, ENAMETOOLONG, false);
        return 1;
    }
    if (walk->target->buffer[0] == '/') {
        *answer = absolute(walk, walk->target->buffer);
        return 1;
    }
    walk->rest = walk->target->buffer;
    return 0;
}

static int search_permitted(const struct walk *walk)
{
    return walk->dataset->all_searchable
               ? 0
               : fan_permitted(walk->dataset, walk->id, X_OK, true);
}

/* Asks the daemon about the path in the target's buffer. The answer of fan_locate. */
static bool ask(struct walk *walk)
{
    struct fan_target *target = walk->target;
    bool follow = (walk->flags & FAN_NOFOLLOW) == 0;
    struct fan_output_call call = {.request = {.op = FAN_OUTPUT_LOOKUP,
                                               .view = fan_output_view(walk->view),
                                               .how = follow ? 0 : FAN_OUTPUT_NOFOLLOW},
                                   .path = target->buffer};
    struct fan_output_answer answer;
    int rc = fan_output_ask(&call, &answer, target->buffer);
    if (rc == 0 && answer.where == FAN_OUTPUT_ELSEWHERE)
        return ++walk->links > LINKS_MAX ? missing(walk, ELOOP, false)
                                         : absolute(walk, target->buffer);
    if (rc != 0 || answer.where != FAN_OUTPUT_HERE)
        return missing_name(walk, rc != 0 ? -rc : EIO, target->creatable, target->slash);
    target->where = FAN_OUTPUT;
    target->attr = answer.attr;
    return true;
}

/* Puts the path of the directory stood in, and `name` with all behind it, into the target's buffer,
 * where `name` may lie already. */
static int put_beyond(const struct walk *walk, const char *name)
{
    struct fan_target *target = walk->target;
    char here[PATH_MAX];
    int64_t bytes = fan_index_path(&walk->dataset->index, walk->id, here, sizeof(here));
    if (bytes < 0)
        return bytes == -ERANGE ? -ENAMETOOLONG : (int)bytes;
    if (bytes > 0)
        return put(target, here, (size_t)bytes, name) ? 0 : -ENAMETOOLONG;
    size_t length = strlen(name);
    if (length >= sizeof(target->buffer))
        return -ENAMETOOLONG;
    memmove(target->buffer, name, length + 1);
    return 0;
}

/* `name` is no input: an output, or about to be one. */
static __attribute__((noinline)) bool beyond(struct walk *walk, const char *name, bool slash)
{
    struct fan_target *target = walk->target;
    bool last = *walk->rest == '\0';
    int rc = put_beyond(walk, name);
    if (rc != 0)
        return missing(walk, -rc, false);
    missing_name(walk, ENOENT, last, slash);
    target->where = FAN_BEYOND;
    target->path = target->buffer;
    return walk->flags & (FAN_DEFER | FAN_CHANGE) ? true : ask(walk);
}

static bool may_be_output(const struct walk *walk, int64_t error)
{
    return error == -ENOENT &&
           (fan_view_touched(walk->view, walk->id) || (walk->flags & FAN_CHANGE));
}

/* Walks what is left. The answer of fan_locate. */
static bool run(struct walk *walk)
{
    const struct fan_index *index = &walk->dataset->index;
    bool slash = false;
    while (*walk->rest != '\0') {
        const char *name = walk->rest, *end = fan_component_end(name);
        size_t bytes = (size_t)(end - name);
        slash = *end == '/';
        while (*end == '/')
            end++;
        walk->rest = end;
        const struct fan_record *here = &index->records[walk->id];
        if (!S_ISDIR(here->mode))
            return missing(walk, ENOTDIR, false);
        int rc = search_permitted(walk);
        if (rc != 0)
            return missing(walk, -rc, false);
        if (fan_is_dot(name, bytes))
            continue;
        if (fan_is_dot_dot(name, bytes)) {
            if (walk->id == 0)
                return leave(walk);
            if (here->parent >= walk->id)
                return missing(walk, EIO, false);
            walk->id = here->parent;
            if (fan_index_path_hash(index, walk->id, &walk->hash) != 0)
                return missing(walk, EIO, false);
            continue;
        }
        if (bytes > FAN_NAME_MAX_BYTES)
            return missing(walk, ENAMETOOLONG, false);
        uint64_t hash;
        int64_t child = fan_index_child(index, walk->id, walk->hash, name, bytes, &hash);
        if (child < 0)
            return may_be_output(walk, child)
                       ? beyond(walk, name, slash)
                       : missing_name(walk, (int)-child, *walk->rest == '\0', slash);
        const struct fan_record *record = &index->records[child];
        bool last = *walk->rest == '\0';
        if (S_ISLNK(record->mode) && !(last && !slash && (walk->flags & FAN_NOFOLLOW))) {
            if (last && slash)
                walk->rest = "/"; /* keeps "must be a directory" through the link */
            bool answer;
            if (follow(walk, record, &answer) != 0)
                return answer;
            continue;
        }
        walk->id = (uint64_t)child;
        walk->hash = hash;
    }
    if (slash && !S_ISDIR(index->records[walk->id].mode))
        return missing_name(walk, ENOTDIR, false, true);
    return found(walk, slash);
}

static bool follows_to(const struct walk *walk, int dirfd, const char *path, char plain[PATH_MAX])
{
    return fan_linked_path(dirfd, path, !(walk->flags & FAN_NOFOLLOW), plain, PATH_MAX);
}

/* A path outside. Where a link of the mount led there, links outside may lead in again: what the
 * kernel would find by them is a skeleton at best. */
static __attribute__((noinline)) bool outside_or_back(struct walk *walk, const char *path)
{
    char plain[PATH_MAX];
    bool was_inside = walk->view != NULL;
    if (!was_inside || walk->links++ > LINKS_MAX ||
        !fan_may_lead_in(AT_FDCWD, path, !(walk->flags & FAN_NOFOLLOW)) ||
        !follows_to(walk, AT_FDCWD, path, plain))
        return outside(walk->target, AT_FDCWD, path);
    memcpy(walk->target->buffer, plain, strlen(plain) + 1);
    return absolute(walk, walk->target->buffer);
}

/* An unusual spelling: by the letter first, and where that leads into a mount, as the kernel
 * resolves it. */
static bool odd(struct walk *walk, const char *path)
{
    char plain[PATH_MAX];
    const char *rest;
    if (fan_normalise(path, plain, sizeof(plain)) != 0 || fan_match_prefix(plain, &rest) == NULL)
        return outside_or_back(walk, path);
    if (walk->links++ > LINKS_MAX || !follows_to(walk, AT_FDCWD, path, plain))
        return outside(walk->target, AT_FDCWD, path);
    struct fan_view *view = fan_match_prefix(plain, &rest);
    size_t bytes = strlen(plain);
    memcpy(walk->target->buffer, plain, bytes + 1);
    rest = walk->target->buffer + (rest - plain);
    return start_walk(walk, view, 0, rest) ? run(walk) : unusable(walk);
}

/* A path that starts in an open directory of outputs, or "" for itself: by its name. */
static bool below_output(struct walk *walk, int fd, const char *path)
{
    char here[PATH_MAX];
    long length = fan_fd_path(fd, here, sizeof(here));
    if (length <= 0 || here[0] != '/')
        return missing(walk, length < 0 ? (int)-length : ENOENT, false);
    if (!put(walk->target, here, (size_t)length, path))
        return missing(walk, ENAMETOOLONG, false);
    return absolute(walk, walk->target->buffer);
}

static bool at_file(struct walk *walk, int fd, const struct fan_file *file, const char *rest)
{
    walk->view = file->view;
    walk->dataset = file->dataset;
    walk->id = 0;
    if (file->kind == FAN_FILE_OUTDIR)
        return below_output(walk, fd, rest);
    return start_walk(walk, file->view, file->id, rest) ? run(walk) : unusable(walk);
}

/* The file that a path under /proc names, where that is not the kernel's to follow: or NULL. */
static const struct fan_file *file_by_proc(const char *path, int *fd)
{
    *fd = fan_proc_fd(path);
    const struct fan_file *file = *fd >= 0 ? fan_file_get(*fd) : NULL;
    bool real = file == NULL || file->kind == FAN_FILE_NEAR || file->kind == FAN_FILE_OUTPUT;
    return real ? NULL : file;
}

static bool absolute(struct walk *walk, const char *path)
{
    const char *rest;
    struct fan_view *view = fan_match_prefix(path, &rest);
    if (__builtin_expect(view != NULL, 1)) {
        if (!start_walk(walk, view, 0, rest))
            return unusable(walk);
        return run(walk);
    }
    if (fan_has_odd_part(path))
        return odd(walk, path);
    int fd;
    const struct fan_file *file = file_by_proc(path, &fd);
    if (file != NULL && !(walk->flags & FAN_NOFOLLOW))
        return at_file(walk, fd, file, "");
    return outside_or_back(walk, path);
}

/* A path below a directory above a mount prefix. */
static bool near_path(struct walk *walk, const struct fan_view *view, size_t above,
                      const char *path)
{
    struct fan_target *target = walk->target;
    if (above == 1 && view->prefix.text[0] == '/')
        above = 0;
    if (!put(target, view->prefix.text, above, path))
        return false;
    return absolute(walk, target->buffer);
}

/* By the path of the working directory. */
static bool from_here(struct walk *walk, const char *path)
{
    struct fan_target *target = walk->target;
    char here[PATH_MAX];
    long length = fan_cwd_path(here, sizeof(here));
    return length > 0 && put(target, here, (size_t)length, path) &&
           absolute(walk, target->buffer);
}

static bool relative(struct walk *walk, const char *path)
{
    struct fan_cwd cwd = fan_cwd_get();
    bool ours = false;
    if (cwd.kind == FAN_CWD_INSIDE) {
        if (!start_walk(walk, cwd.view, cwd.value, path))
            return unusable(walk);
        return run(walk);
    }
    if (cwd.kind == FAN_CWD_NEAR)
        ours = near_path(walk, cwd.view, cwd.value, path);
    else if (cwd.kind == FAN_CWD_OUTPUT || fan_has_dot_dot(path))
        ours = from_here(walk, path);
    return ours || walk->view != NULL ? ours : outside(walk->target, AT_FDCWD, path);
}

static bool below_fd(struct walk *walk, int dirfd, const char *path)
{
    const struct fan_file *file = fan_file_get(dirfd);
    if (file == NULL || file->kind == FAN_FILE_OUTPUT)
        return outside(walk->target, dirfd, path);
    if (file->kind == FAN_FILE_NEAR) {
        bool ours = near_path(walk, file->view, file->id, path);
        return ours || walk->view != NULL ? ours : outside(walk->target, dirfd, path);
    }
    if (path[0] != '\0')
        return at_file(walk, dirfd, file, path);
    walk->view = file->view;
    walk->dataset = file->dataset;
    walk->id = file->kind == FAN_FILE_OUTDIR ? 0 : file->id;
    if (!(walk->flags & FAN_EMPTY_PATH))
        return missing(walk, ENOENT, false);
    return file->kind == FAN_FILE_OUTDIR ? below_output(walk, dirfd, "") : found(walk, false);
}

/* What strlen may touch: neither NULL nor the kernel's half. */
static bool plausible(const char *path)
{
    return (uintptr_t)path >= 4096 && (intptr_t)path > 0;
}

/* Follows links outside. true when they lead into a mount. */
static bool locate_linked(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    char plain[PATH_MAX];
    struct walk walk = {.target = target, .flags = flags};
    return fan_linked_path(dirfd, path, !(flags & FAN_NOFOLLOW), plain, sizeof(plain)) &&
           absolute(&walk, plain);
}

static bool locate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    struct walk walk = {.target = target, .flags = flags};
    bool ours;
    if (path[0] == '/')
        ours = absolute(&walk, path);
    else if (dirfd != AT_FDCWD)
        ours = below_fd(&walk, dirfd, path);
    else if (path[0] != '\0')
        ours = relative(&walk, path);
    else
        ours = outside(target, dirfd, path);
    if (ours && strlen(path) >= PATH_MAX)
        return missing(&walk, ENAMETOOLONG, false);
    return ours;
}

bool fan_locate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    target->restarts = 0;
    if (fan_job.view_count == 0 || !plausible(path))
        return outside(target, dirfd, path);
    if (locate(dirfd, path, flags, target))
        return true;
    if (!(flags & FAN_THROUGH) || target->path != path /* came out of a mount: followed already */ ||
        path[0] == '\0' || !fan_may_lead_in(dirfd, path, !(flags & FAN_NOFOLLOW)))
        return false;
    return locate_linked(dirfd, path, flags, target) || outside(target, dirfd, path);
}

bool fan_locate_change(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    return fan_locate(dirfd, path, flags | FAN_THROUGH | FAN_CHANGE, target);
}

bool fan_relocate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    target->restarts = 0;
    if (fan_job.view_count == 0 || !plausible(path) || path[0] == '\0')
        return false;
    bool from_directory = dirfd != AT_FDCWD && path[0] != '/';
    return (from_directory || fan_linked(dirfd, path)) &&
           locate_linked(dirfd, path, flags, target);
}

bool fan_locate_again(struct fan_target *target, const char *path, unsigned flags)
{
    struct walk walk = {.target = target, .flags = flags, .view = target->view};
    size_t bytes = strlen(path);
    if (walk.view != NULL)
        walk.dataset = fan_view_dataset(walk.view);
    if (++target->restarts > LINKS_MAX)
        return missing(&walk, ELOOP, false);
    if (path[0] != '/' || bytes >= sizeof(target->buffer))
        return missing(&walk, EIO, false);
    memmove(target->buffer, path, bytes + 1);
    return absolute(&walk, target->buffer);
}
