#include "change.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../common/sys.h"
#include "draft.h"
#include "lock.h"
#include "table.h"

static int64_t now_ns(void)
{
    struct timespec now = {0};
    FAN_SYS(clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct fan_table_path whole(const struct fan_names_path *path)
{
    return (struct fan_table_path){path->mount, path->text, (uint32_t)path->bytes};
}

/* The directory of a name that is no input, if clients may change names in it. */
static struct fan_name *directory_of(const struct fan_changer *changer,
                                     const struct fan_names_path *path)
{
    struct fan_table_path at = whole(path), above = fan_table_parent(&at);
    struct fan_name *directory =
        above.bytes < path->base_bytes ? NULL : fan_table_find(&changer->names, &above);
    const uint32_t both = FAN_NAME_COVERED | FAN_NAME_OPEN;
    return directory != NULL && (directory->flags & both) == both ? directory : NULL;
}

uint32_t fan_change_home(const struct fan_names *names, const struct fan_names_path *path)
{
    struct fan_table_path at = whole(path), above = fan_table_parent(&at);
    return fan_names_home(names, above.mount, above.text, above.bytes);
}

static bool has_room(const struct fan_changer *changer, const struct fan_names_path *path,
                     uint32_t target_bytes)
{
    const struct fan_names_header *header = changer->names.header;
    return header->count < header->bucket_count &&
           fan_table_lacks(&changer->names, (uint32_t)path->bytes, target_bytes) == 0;
}

/* Adds to the log, as what is done then cannot be undone by a kill. */
static bool commit(const struct fan_changer *changer, struct fan_wish *wish)
{
    struct fan_change *change = &wish->change;
    change->mount = (uint16_t)wish->path.mount;
    change->rank = changer->rank;
    change->pid = changer->pid;
    change->path_bytes = (uint32_t)wish->path.bytes;
    change->other_bytes = (uint32_t)wish->other.bytes;
    const char *other = wish->other.bytes > 0 ? wish->other.text : "";
    return fan_change_commit(changer, change, wish->path.text, other, FAN_NAMES_LOG_SPARE_BYTES);
}

/* Ends a change, and notes its time at the directory. */
static int settle(struct fan_changer *changer, struct fan_name *directory,
                  const struct fan_wish *wish)
{
    fan_table_store((uint64_t *)&directory->changed_ns, (uint64_t)wish->change.when_ns);
    fan_change_settle(changer);
    return 0;
}

static void set(const struct fan_changer *changer, struct fan_name *directory,
                const struct fan_names_path *path, const struct fan_output_attr *attr, bool ask)
{
    struct fan_table_path at = whole(path);
    struct fan_table_value value = {attr, "", 0, ask};
    fan_table_put(&changer->names, directory, &at, &value);
}

/* The object of what is made; another rank's program brings its own. */
static void identify(const struct fan_changer *changer, struct fan_change *change)
{
    if (changer->rank == changer->names.header->rank)
        change->object = fan_draft_new_object(&changer->names);
    change->attr.object = S_ISDIR(change->attr.mode) ? 0 : change->object;
    change->attr.ino = FAN_INODE_BIT | change->object;
}

static bool is_free(const struct fan_changer *changer, const struct fan_names_path *path)
{
    struct fan_table_path at = whole(path);
    return fan_table_find(&changer->names, &at) == NULL;
}

static int create(struct fan_changer *changer, struct fan_wish *wish)
{
    struct fan_name *directory = directory_of(changer, &wish->path);
    if (directory == NULL || !is_free(changer, &wish->path) || !has_room(changer, &wish->path, 0))
        return FAN_NAMES_ASK;
    identify(changer, &wish->change);
    uint64_t object = wish->change.object;
    struct fan_names_draft *draft = fan_draft_at(&changer->names, object);
    if (draft->object != 0 || !commit(changer, wish))
        return FAN_NAMES_ASK;
    struct fan_table_path at = whole(&wish->path);
    set(changer, directory, &wish->path, NULL, true);
    struct fan_name *name = fan_table_find(&changer->names, &at);
    name->attr.object = object;
    uint64_t unit = fan_table_unit(&changer->names, name);
    *draft = (struct fan_names_draft){object, unit, fan_draft_writer(changer)};
    return settle(changer, directory, wish);
}

static int publish(struct fan_changer *changer, struct fan_wish *wish)
{
    uint64_t object = wish->change.object;
    struct fan_names_draft *draft = fan_draft_at(&changer->names, object);
    if (draft->object != object || draft->writer != fan_draft_writer(changer) ||
        (draft->unit & FAN_NAMES_DRAFT_ELSEWHERE))
        return FAN_NAMES_ASK;
    struct fan_name *name = fan_table_at(&changer->names, draft->unit);
    struct fan_name *directory = fan_table_at(&changer->names, name->parent);
    wish->path =
        (struct fan_names_path){name->mount, (const char *)(name + 1), name->path_bytes, 0};
    wish->change.attr.object = object;
    wish->change.attr.ino = FAN_INODE_BIT | object;
    if (!commit(changer, wish))
        return FAN_NAMES_ASK;
    draft->object = 0;
    set(changer, directory, &wish->path, &wish->change.attr, false);
    return settle(changer, directory, wish);
}

/* A finished file or link, which nobody is writing anew. */
static bool is_plain(const struct fan_name *name)
{
    return name != NULL && name->flags == FAN_NAME_ENTRY &&
           (S_ISREG(name->attr.mode) || S_ISLNK(name->attr.mode));
}

/* Its object, if that is a file of the changer's rank. */
static bool has_own_object(const struct fan_changer *changer, const struct fan_name *name,
                           uint64_t *object)
{
    *object = S_ISREG(name->attr.mode) ? name->attr.object : 0;
    return *object == 0 || fan_draft_rank(*object) == changer->rank;
}

static int move(struct fan_changer *changer, struct fan_wish *wish)
{
    const struct fan_names *names = &changer->names;
    struct fan_change *change = &wish->change;
    struct fan_name *source = directory_of(changer, &wish->path);
    struct fan_name *target = directory_of(changer, &wish->other);
    struct fan_table_path old_path = whole(&wish->path), new_path = whole(&wish->other);
    struct fan_name *old = source != NULL ? fan_table_find(names, &old_path) : NULL;
    struct fan_name *new = target != NULL ? fan_table_find(names, &new_path) : NULL;
    change->gone = 0;
    if (target == NULL || !is_plain(old) || !has_own_object(changer, old, &change->object) ||
        wish->path.mount != wish->other.mount || old == new)
        return FAN_NAMES_ASK;
    if (new != NULL &&
        (!wish->replace || !is_plain(new) || !has_own_object(changer, new, &change->gone)))
        return FAN_NAMES_ASK;
    struct fan_output_attr attr = old->attr;
    if (!has_room(changer, &wish->other, old->target_bytes) || !commit(changer, wish))
        return FAN_NAMES_ASK;
    const char *link = (const char *)(old + 1) + fan_table_padded(old->path_bytes);
    struct fan_table_value value = {&attr, link, old->target_bytes, false};
    fan_table_put(names, target, &new_path, &value);
    set(changer, source, &wish->path, NULL, false);
    fan_table_store((uint64_t *)&source->changed_ns, (uint64_t)change->when_ns);
    return settle(changer, target, wish);
}

/* A directory, all of whose names are known: there are none. */
static bool is_empty(const struct fan_name *name)
{
    const uint32_t there = FAN_NAME_ENTRY | FAN_NAME_COVERED;
    return name != NULL && name->flags == (there | FAN_NAME_OPEN) && S_ISDIR(name->attr.mode) &&
           name->children == 0;
}

static int drop(struct fan_changer *changer, struct fan_wish *wish)
{
    struct fan_name *directory = directory_of(changer, &wish->path);
    struct fan_table_path at = whole(&wish->path);
    struct fan_name *name = directory != NULL ? fan_table_find(&changer->names, &at) : NULL;
    wish->change.object = wish->change.gone = 0;
    if (wish->directory ? !is_empty(name)
                        : !is_plain(name) || !has_own_object(changer, name, &wish->change.gone))
        return FAN_NAMES_ASK;
    if (!commit(changer, wish))
        return FAN_NAMES_ASK;
    if (wish->directory)
        fan_table_uncover(&changer->names, name);
    set(changer, directory, &wish->path, NULL, false);
    return settle(changer, directory, wish);
}

static int make(struct fan_changer *changer, struct fan_wish *wish)
{
    struct fan_name *directory = directory_of(changer, &wish->path);
    const struct fan_names *names = &changer->names;
    if (directory == NULL || !is_free(changer, &wish->path) || !has_room(changer, &wish->path, 0))
        return FAN_NAMES_ASK;
    identify(changer, &wish->change);
    struct fan_output_attr *attr = &wish->change.attr;
    attr->atime_ns = attr->mtime_ns = attr->ctime_ns = wish->change.when_ns;
    if (!commit(changer, wish))
        return FAN_NAMES_ASK;
    struct fan_table_path at = whole(&wish->path);
    set(changer, directory, &wish->path, attr, false);
    if (fan_names_home(names, at.mount, at.text, at.bytes) == names->header->rank) {
        struct fan_name *made = fan_table_cover(names, &at);
        fan_table_set_flags(made, made->flags | FAN_NAME_OPEN);
    }
    return settle(changer, directory, wish);
}

static int alter(struct fan_changer *changer, struct fan_wish *wish)
{
    struct fan_name *directory = directory_of(changer, &wish->path);
    struct fan_table_path at = whole(&wish->path);
    struct fan_name *name = directory != NULL ? fan_table_find(&changer->names, &at) : NULL;
    uint64_t object;
    if (name == NULL || !(name->flags & FAN_NAME_ENTRY) || (name->flags & FAN_NAME_ASK) ||
        !has_own_object(changer, name, &object))
        return FAN_NAMES_ASK;
    struct fan_output_attr *attr = &wish->change.attr;
    bool times = S_ISDIR(name->attr.mode) && wish->change.object != 0;
    *attr = name->attr;
    if ((times && !(name->flags & FAN_NAME_COVERED)) || !wish->alter(wish->how, attr))
        return FAN_NAMES_ASK;
    wish->change.object = times;
    if (!commit(changer, wish))
        return FAN_NAMES_ASK;
    const char *link = (const char *)(name + 1) + fan_table_padded(name->path_bytes);
    struct fan_table_value value = {attr, link, name->target_bytes, false};
    fan_table_put(&changer->names, directory, &at, &value);
    if (times) /* they hold, though names in it changed before */
        fan_table_store((uint64_t *)&name->changed_ns, 0);
    fan_change_settle(changer);
    return 0;
}

static int make_alone(struct fan_changer *changer, struct fan_wish *wish)
{
    wish->change.when_ns = now_ns();
    switch (wish->change.kind) {
    case FAN_CHANGE_CREATED:
        return create(changer, wish);
    case FAN_CHANGE_PUBLISHED:
        return publish(changer, wish);
    case FAN_CHANGE_MOVED:
        return move(changer, wish);
    case FAN_CHANGE_REMOVED:
        return drop(changer, wish);
    case FAN_CHANGE_MADE:
        return make(changer, wish);
    case FAN_CHANGE_ALTERED:
        return wish->alter != NULL ? alter(changer, wish) : FAN_NAMES_ASK;
    default:
        return FAN_NAMES_ASK;
    }
}

/* Whether it is this rank's to change: else there is nothing to wait for. */
static bool is_here(const struct fan_changer *changer, const struct fan_wish *wish)
{
    uint64_t object = wish->change.object;
    if (wish->change.kind == FAN_CHANGE_PUBLISHED)
        return fan_draft_is(&changer->names, object);
    return fan_change_home(&changer->names, &wish->path) == changer->names.header->rank;
}

int fan_change_make(struct fan_changer *changer, struct fan_wish *wish)
{
    if (!is_here(changer, wish) || !fan_change_enter(changer))
        return FAN_NAMES_ASK;
    int rc = make_alone(changer, wish);
    fan_change_leave(changer);
    return rc;
}
