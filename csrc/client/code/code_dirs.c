#include "code_dirs.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "../../common/sys.h"
#include "code_tree.h"

/* Returns 1 if a path leads to a directory of a mount, 0 if it is outside, -1 if there is none. */
static int where_is(const char *path, struct fan_target *target)
{
    struct stat st;
    if (!fan_locate(AT_FDCWD, path, FAN_THROUGH, target) && target->where != FAN_TREE)
        return 0;
    if (target->where == FAN_TREE)
        return FAN_SYS(newfstatat, target->dirfd, target->path, &st, 0) == 0 && S_ISDIR(st.st_mode)
                   ? 1
                   : -1;
    bool there = target->where == FAN_INPUT || target->where == FAN_OUTPUT;
    return there && S_ISDIR(fan_target_mode(target)) ? 1 : -1;
}

/* Makes the real directory for a directory of a mount, and writes its place. */
static int make_place(const char *path, struct fan_target *target, char place[PATH_MAX])
{
    int64_t length = fan_code_place_of(path, place, PATH_MAX);
    if (length == -EXDEV) { /* a link outside led to the mount */
        length = fan_target_path(target, target->buffer, sizeof(target->buffer));
        if (length >= 0)
            length = fan_code_place_of(target->buffer, place, PATH_MAX);
    }
    return length < 0 ? (int)length : fan_code_make_directory(place);
}

static void push(struct fan_code_dirs *dirs, bool foreign)
{
    size_t bytes = strlen(dirs->path) + 1;
    int where = where_is(dirs->path, &dirs->target);
    if (where < 0 || dirs->count >= FAN_CODE_DIRS_MAX || bytes > sizeof(dirs->texts) - dirs->used)
        return;
    if (where > 0 && !foreign && make_place(dirs->path, &dirs->target, dirs->place) != 0)
        foreign = true;
    char *text = dirs->texts + dirs->used;
    memcpy(text, dirs->path, bytes);
    dirs->used += bytes;
    dirs->in_mount = dirs->in_mount || where > 0;
    dirs->dirs[dirs->count++] = (struct fan_code_dir){text, where > 0 && foreign};
}

/* Returns the length of the part of an entry that stands for its owner's directory ($ORIGIN); 0 if
 * there is none. */
static size_t origin_bytes(const char *element, size_t bytes)
{
    static const char *const ways[] = {"${ORIGIN}", "$ORIGIN"};
    for (unsigned i = 0; i < 2; i++) {
        size_t way = strlen(ways[i]);
        if (bytes >= way && memcmp(element, ways[i], way) == 0 &&
            (bytes == way || element[way] == '/'))
            return way;
    }
    return 0;
}

/* Writes an entry to dirs->path, with $ORIGIN replaced. Returns false if the entry must be
 * skipped. */
static bool expand(struct fan_code_dirs *dirs, const char *element, size_t bytes,
                   const char *owner)
{
    size_t skip = owner != NULL ? origin_bytes(element, bytes) : 0;
    size_t head = skip > 0 ? (size_t)(strrchr(owner, '/') - owner) : 0;
    if (head + (bytes - skip) >= sizeof(dirs->path))
        return false;
    if (head > 0)
        memcpy(dirs->path, owner, head);
    memcpy(dirs->path + head, element + skip, bytes - skip);
    dirs->path[head + bytes - skip] = '\0';
    return dirs->path[0] == '/' && memchr(element + skip, '$', bytes - skip) == NULL;
}

void fan_code_dirs_add(struct fan_code_dirs *dirs, const char *list, const char *owner,
                       bool foreign)
{
    const char *separators = owner != NULL ? ":" : ":;";
    for (const char *at = list;; at++) {
        size_t bytes = strcspn(at, separators);
        bool by_name = owner != NULL && origin_bytes(at, bytes) == 0;
        if (expand(dirs, at, bytes, owner))
            push(dirs, foreign || by_name);
        at += bytes;
        if (*at == '\0')
            return;
    }
}

/* Returns whether `text` contains `part`. Does not call strstr: a sanitizer's comes first, and is
 * not ready when the program starts. */
static bool holds(const char *text, const struct fan_text *part)
{
    for (; part->bytes > 0 && *text != '\0'; text++) {
        size_t same = 0;
        while (same < part->bytes && text[same] == part->text[same])
            same++;
        if (same == part->bytes)
            return true;
    }
    return false;
}

bool fan_code_mentions_mount(const char *list)
{
    for (unsigned i = 0; list != NULL && i < fan_job.view_count; i++) {
        const struct fan_view *view = &fan_job.views[i];
        if (holds(list, &view->prefix) || holds(list, &view->alias))
            return true;
    }
    return list != NULL && holds(list, &fan_job.directory);
}

int64_t fan_code_dirs_replace(const char *old, char *to, size_t capacity,
                              struct fan_target *target, char place[PATH_MAX])
{
    size_t length = 0;
    to[0] = '\0';
    for (const char *at = old; at != NULL && *at != '\0';) {
        size_t bytes = strcspn(at, ":;");
        char *element = to + length;
        if (length + bytes + 2 > capacity)
            return -ENAMETOOLONG;
        memcpy(element, at, bytes);
        element[bytes] = '\0';
        at += bytes;
        if (element[0] == '/' && where_is(element, target) > 0 &&
            make_place(element, target, place) == 0) {
            bytes = strlen(place);
            if (length + bytes + 2 > capacity)
                return -ENAMETOOLONG;
            memcpy(element, place, bytes + 1);
        }
        length += bytes;
        if (*at != '\0')
            to[length++] = *at++;
        to[length] = '\0';
    }
    return (int64_t)length;
}
