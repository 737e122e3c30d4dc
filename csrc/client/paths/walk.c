#include "walk.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../../format/pack_format.h"
#include "../machine/spelling.h"
#include "output_tree.h"

bool fan_walk_found(const struct fan_walk *walk, bool slash)
{
    struct fan_target *target = walk->target;
    target->where = FAN_INPUT;
    target->view = walk->view;
    target->dataset = walk->dataset;
    target->id = walk->id;
    target->record = &walk->dataset->index.records[walk->id];
    target->mode = target->record->mode;
    target->slash = slash;
    return true;
}

/* Follows ".." from the mount's root: continues outside, in the parent of the prefix. */
static enum fan_walk_end leave(struct fan_walk *walk)
{
    const struct fan_text *prefix = &walk->view->prefix;
    size_t up = prefix->bytes;
    while (up > 1 && prefix->text[up - 1] != '/')
        up--;
    up = up > 1 ? up - 1 : 0;
    if (!fan_walk_put(walk->target, prefix->text, up, walk->rest))
        return fan_walk_missing(walk, ENAMETOOLONG, false);
    if (walk->target->buffer[0] == '\0')
        memcpy(walk->target->buffer, "/", 2);
    return FAN_WALK_ON;
}

/* Writes a link's target and the rest of the path to the target's buffer. Returns 0 or -errno. */
static int follow(struct fan_walk *walk, const struct fan_record *link)
{
    const char *to;
    size_t bytes;
    if (++walk->links > FAN_LINKS_MAX)
        return -ELOOP;
    if (fan_index_target(&walk->dataset->index, link, &to, &bytes) != 0)
        return -EIO;
    return fan_walk_put(walk->target, to, bytes, walk->rest) ? 0 : -ENAMETOOLONG;
}

static int search_permitted(const struct fan_walk *walk)
{
    return walk->dataset->all_searchable
               ? 0
               : fan_permitted(walk->dataset, walk->id, X_OK, true);
}

static bool may_be_output(const struct fan_walk *walk, int error)
{
    return error == -ENOENT &&
           (fan_view_touched(walk->view, walk->id) || (walk->flags & FAN_CHANGE));
}

static void stand(struct fan_walk *walk, const struct fan_child *child)
{
    walk->id = child->id;
    walk->hash = child->hash;
    walk->mode = child->mode;
}

/* Moves to the directory above. Returns false if the index is damaged. */
static bool go_up(struct fan_walk *walk)
{
    const struct fan_index *index = &walk->dataset->index;
    struct fan_child up = {.id = index->records[walk->id].parent};
    if (up.id >= walk->id || fan_index_path_hash(index, up.id, &up.hash) != 0)
        return false;
    up.mode = index->records[up.id].mode;
    stand(walk, &up);
    return true;
}

/* Returns the path hash of the rest of the path, as if it had neither links nor dots. */
static inline uint64_t hash_of_rest(const struct fan_walk *walk)
{
    uint64_t hash = walk->hash;
    for (const char *name = walk->rest; *name != '\0';) {
        const char *end = fan_component_end(name);
        hash = fan_path_hash_step(hash, name, (size_t)(end - name));
        for (name = end; *name == '/';)
            name++;
    }
    return hash;
}

enum fan_walk_end fan_walk_run(struct fan_walk *walk)
{
    const struct fan_index *index = &walk->dataset->index;
    bool slash = false;
    if (index->slots != NULL) /* comes from memory while directories are looked up in the cache */
        __builtin_prefetch(&index->slots[fan_first_slot(hash_of_rest(walk), index->slot_count)]);
    while (*walk->rest != '\0') {
        const char *name = walk->rest, *end = fan_component_end(name);
        size_t bytes = (size_t)(end - name);
        slash = *end == '/';
        while (*end == '/')
            end++;
        walk->rest = end;
        if (!S_ISDIR(walk->mode))
            return fan_walk_missing(walk, ENOTDIR, false);
        int rc = search_permitted(walk);
        if (rc != 0)
            return fan_walk_missing(walk, -rc, false);
        if (fan_is_dot(name, bytes))
            continue;
        if (fan_is_dot_dot(name, bytes)) {
            if (walk->id == 0)
                return leave(walk);
            if (!go_up(walk))
                return fan_walk_missing(walk, EIO, false);
            continue;
        }
        if (bytes > FAN_NAME_MAX_BYTES)
            return fan_walk_missing(walk, ENAMETOOLONG, false);
        struct fan_child child;
        rc = fan_index_child(index, walk->id, walk->hash, name, bytes, &child);
        if (rc != 0)
            return may_be_output(walk, rc)
                       ? fan_tree_walk(walk, name, slash)
                       : fan_walk_missing_name(walk, -rc, *walk->rest == '\0', slash);
        bool last = *walk->rest == '\0';
        if (S_ISLNK(child.mode) && !(last && !slash && (walk->flags & FAN_NOFOLLOW))) {
            if (last && slash)
                walk->rest = "/"; /* keeps "must be a directory" through the link */
            rc = follow(walk, &index->records[child.id]);
            if (rc != 0)
                return fan_walk_missing(walk, -rc, false);
            if (walk->target->buffer[0] == '/')
                return FAN_WALK_ON;
            walk->rest = walk->target->buffer;
            continue;
        }
        stand(walk, &child);
    }
    if (slash && !S_ISDIR(walk->mode))
        return fan_walk_missing_name(walk, ENOTDIR, false, true);
    return fan_walk_found(walk, slash);
}
