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

size_t fan_match_above(const char *path, struct fan_view **view)
{
    size_t length = strlen(path);
    while (length > 0 && path[length - 1] == '/')
        length--;
    for (unsigned i = 0; i < fan_job.view_count; i++) {
        const struct fan_text *prefix = &fan_job.views[i].prefix;
        if (length < prefix->bytes && memcmp(path, prefix->text, length) == 0 &&
            prefix->text[length] == '/') {
            *view = &fan_job.views[i];
            return length > 0 ? length : 1;
        }
    }
    return 0;
}

int64_t fan_full_path(const struct fan_view *view, const struct fan_dataset *dataset, uint64_t id,
                      char *buffer, size_t capacity)
{
    size_t start = view->prefix.bytes;
    if (start + 2 > capacity)
        return -ENAMETOOLONG;
    memcpy(buffer, view->prefix.text, start);
    if (id != 0)
        buffer[start++] = '/';
    int64_t length = fan_index_path(&dataset->index, id, buffer + start, capacity - start - 1);
    if (length < 0)
        return length == -ERANGE ? -ENAMETOOLONG : length;
    buffer[start + (size_t)length] = '\0';
    return (int64_t)start + length;
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

static bool absolute(struct walk *walk, const char *path);

/* Puts `head` "/" `tail` into the target's buffer; tail may lie in the buffer already. */
static bool join(struct fan_target *target, const char *head, size_t head_bytes,
                   const char *tail)
{
    size_t tail_bytes = strlen(tail);
    if (head_bytes + tail_bytes + 2 > sizeof(target->buffer))
        return false;
    memmove(target->buffer + head_bytes + 1, tail, tail_bytes + 1);
    memcpy(target->buffer, head, head_bytes);
    target->buffer[head_bytes] = tail_bytes > 0 ? '/' : '\0';
    return true;
}

/* ".." of the mount's root: goes on outside, by the prefix's own parent. */
static bool leave(struct walk *walk)
{
    const struct fan_text *prefix = &walk->view->prefix;
    size_t up = prefix->bytes;
    while (up > 1 && prefix->text[up - 1] != '/')
        up--;
    up = up > 1 ? up - 1 : 0;
    if (!join(walk->target, prefix->text, up, walk->rest))
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
    if (!join(walk->target, to, bytes, walk->rest)) {
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

static bool is_dot(const char *name, size_t bytes)
{
    return bytes == 1 && name[0] == '.';
}

static bool is_dot_dot(const char *name, size_t bytes)
{
    return bytes == 2 && name[0] == '.' && name[1] == '.';
}

static const char *component_end(const char *p)
{
    while (*p != '/' && *p != '\0')
        p++;
    return p;
}

static int search_permitted(const struct walk *walk)
{
    return walk->dataset->all_searchable
               ? 0
               : fan_permitted(walk->dataset, walk->id, X_OK, true);
}

/* Walks what is left. The answer of fan_locate. */
static bool run(struct walk *walk)
{
    const struct fan_index *index = &walk->dataset->index;
    bool slash = false;
    while (*walk->rest != '\0') {
        const char *name = walk->rest, *end = component_end(name);
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
        if (is_dot(name, bytes))
            continue;
        if (is_dot_dot(name, bytes)) {
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
            return missing_name(walk, (int)-child, *walk->rest == '\0', slash);
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

static bool has_odd_part(const char *path)
{
    for (const char *p = path; *p != '\0'; p++) {
        if (p[0] == '/' && (p[1] == '/' || p[1] == '.'))
            return true;
    }
    return false;
}

/* Removes "//", "/./" and, by the letter, "/x/.." from an absolute path. -1: does not fit. */
static int normalise(const char *path, char *to, size_t capacity)
{
    size_t length = 0;
    while (*path != '\0') {
        while (*path == '/')
            path++;
        const char *end = component_end(path);
        size_t bytes = (size_t)(end - path);
        if (is_dot_dot(path, bytes)) {
            while (length > 0 && to[--length] != '/') {
            }
        } else if (bytes > 0 && !is_dot(path, bytes)) {
            if (length + bytes + 2 > capacity)
                return -1;
            to[length++] = '/';
            memcpy(to + length, path, bytes);
            length += bytes;
        }
        path = end;
    }
    to[length] = '\0';
    return 0;
}

/* An unusual spelling: by the letter first, and where that leads into a mount, as the kernel
 * resolves it. */
static bool odd(struct walk *walk, const char *path)
{
    char plain[PATH_MAX];
    const char *rest;
    if (normalise(path, plain, sizeof(plain)) != 0 || fan_match_prefix(plain, &rest) == NULL)
        return outside(walk->target, AT_FDCWD, path);
    if (walk->links++ > LINKS_MAX || !follows_to(walk, AT_FDCWD, path, plain))
        return outside(walk->target, AT_FDCWD, path);
    struct fan_view *view = fan_match_prefix(plain, &rest);
    size_t bytes = strlen(plain);
    memcpy(walk->target->buffer, plain, bytes + 1);
    rest = walk->target->buffer + (rest - plain);
    return start_walk(walk, view, 0, rest) ? run(walk) : missing(walk, EIO, false);
}

/* The digits at *text, which moves past them. -1: none, or too many. */
static long number_at(const char **text)
{
    long number = -1;
    for (; **text >= '0' && **text <= '9'; (*text)++) {
        if (number > 1 << 24)
            return -1;
        number = (number < 0 ? 0 : number) * 10 + (**text - '0');
    }
    return number;
}

/* "/proc/self/fd/N", "/proc/PID/fd/N", "/dev/fd/N", "/dev/stdin": the file behind a descriptor of ours. */
static struct fan_file *file_by_proc(const char *path)
{
    static const char *const ways[] = {"/proc/self/fd/", "/dev/fd/", "/proc/thread-self/fd/"};
    const char *p = path;
    if (path[1] != 'p' && path[1] != 'd')
        return NULL;
    if (strcmp(path, "/dev/stdin") == 0)
        return fan_file_get(0);
    if (strncmp(path, "/proc/", 6) == 0 && path[6] >= '0' && path[6] <= '9') {
        p = path + 6;
        if (number_at(&p) != (long)FAN_SYS(getpid) || strncmp(p, "/fd/", 4) != 0)
            return NULL;
        p += 4;
    }
    for (unsigned i = 0; p == path && i < sizeof(ways) / sizeof(ways[0]); i++) {
        if (strncmp(path, ways[i], strlen(ways[i])) == 0)
            p += strlen(ways[i]);
    }
    long fd = p > path ? number_at(&p) : -1;
    return fd >= 0 && *p == '\0' ? fan_file_get((int)fd) : NULL;
}

static bool at_file(struct walk *walk, const struct fan_file *file, const char *rest)
{
    return start_walk(walk, file->view, file->id, rest) ? run(walk) : missing(walk, EIO, false);
}

static bool absolute(struct walk *walk, const char *path)
{
    const char *rest;
    struct fan_view *view = fan_match_prefix(path, &rest);
    if (__builtin_expect(view != NULL, 1)) {
        if (!start_walk(walk, view, 0, rest))
            return missing(walk, EIO, false);
        return run(walk);
    }
    if (has_odd_part(path))
        return odd(walk, path);
    struct fan_file *file = file_by_proc(path);
    if (file != NULL && file->kind != FAN_FILE_NEAR && !(walk->flags & FAN_NOFOLLOW))
        return at_file(walk, file, "");
    return outside(walk->target, AT_FDCWD, path);
}

/* A path below a directory above a mount prefix. */
static bool near_path(struct walk *walk, const struct fan_view *view, size_t above,
                      const char *path)
{
    struct fan_target *target = walk->target;
    if (above == 1 && view->prefix.text[0] == '/')
        above = 0;
    if (!join(target, view->prefix.text, above, path))
        return false;
    return absolute(walk, target->buffer);
}

static bool has_dot_dot(const char *path)
{
    for (const char *p = path; *p != '\0';) {
        const char *end = component_end(p);
        if (is_dot_dot(p, (size_t)(end - p)))
            return true;
        p = *end == '/' ? end + 1 : end;
    }
    return false;
}

static bool from_far(struct walk *walk, const char *path)
{
    struct fan_target *target = walk->target;
    char here[PATH_MAX];
    if (!has_dot_dot(path))
        return false;
    long length = fan_cwd_path(here, sizeof(here));
    return length > 0 && join(target, here, (size_t)length, path) &&
           absolute(walk, target->buffer);
}

static bool relative(struct walk *walk, const char *path)
{
    struct fan_cwd cwd = fan_cwd_get();
    bool ours = false;
    if (cwd.kind == FAN_CWD_INSIDE) {
        if (!start_walk(walk, cwd.view, cwd.value, path))
            return missing(walk, EIO, false);
        return run(walk);
    }
    if (cwd.kind == FAN_CWD_NEAR)
        ours = near_path(walk, cwd.view, cwd.value, path);
    else
        ours = from_far(walk, path);
    return ours || walk->view != NULL ? ours : outside(walk->target, AT_FDCWD, path);
}

static bool below_fd(struct walk *walk, int dirfd, const char *path)
{
    const struct fan_file *file = fan_file_get(dirfd);
    if (file == NULL)
        return outside(walk->target, dirfd, path);
    if (file->kind == FAN_FILE_NEAR) {
        bool ours = near_path(walk, file->view, file->id, path);
        return ours || walk->view != NULL ? ours : outside(walk->target, dirfd, path);
    }
    if (path[0] != '\0')
        return at_file(walk, file, path);
    if (!(walk->flags & FAN_EMPTY_PATH))
        return missing(walk, ENOENT, false);
    walk->view = file->view;
    walk->dataset = file->dataset;
    walk->id = file->id;
    return found(walk, false);
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

bool fan_locate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    struct walk walk = {.target = target, .flags = flags};
    if (fan_job.view_count == 0 || !plausible(path))
        return outside(target, dirfd, path);
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

bool fan_locate_change(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    if (fan_locate(dirfd, path, flags, target))
        return true;
    if (target->path != path) /* came out of a mount: followed already */
        return false;
    if (fan_job.view_count == 0 || !plausible(path) || path[0] == '\0' ||
        !fan_may_lead_in(dirfd, path, !(flags & FAN_NOFOLLOW)))
        return false;
    return locate_linked(dirfd, path, flags, target) || outside(target, dirfd, path);
}

bool fan_relocate(int dirfd, const char *path, unsigned flags, struct fan_target *target)
{
    if (fan_job.view_count == 0 || !plausible(path) || path[0] == '\0')
        return false;
    bool from_directory = dirfd != AT_FDCWD && path[0] != '/';
    return (from_directory || fan_linked(dirfd, path)) &&
           locate_linked(dirfd, path, flags, target);
}
