#include "change.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "../common/sys.h"
#include "table.h"

#define INODE_BIT (UINT64_C(1) << 62)       /* as in fanstore/outputs/model/entries.py */
#define OWN_OBJECTS_BIT (UINT64_C(1) << 39) /* the daemon's own objects do not have it */

enum { OBJECT_RANK_SHIFT = 40, WAITS = 40, WAIT_NS = 50000, SPINS = 200 };

static int64_t now_ns(void)
{
    struct timespec now = {0};
    FAN_SYS(clock_gettime, CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static bool lock(struct fan_names_header *header, uint32_t thread)
{
    for (unsigned i = 0; i < SPINS; i++) {
        uint32_t nobody = 0;
        if (__atomic_compare_exchange_n(&header->changer, &nobody, thread, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

static void leave(const struct fan_changer *changer)
{
    __atomic_store_n(&changer->names.header->changer, 0, __ATOMIC_RELEASE);
}

static enum fan_names_closed closed(const struct fan_changer *changer)
{
    return __atomic_load_n(&changer->names.header->closed, __ATOMIC_ACQUIRE);
}

static bool may_change(const struct fan_changer *changer)
{
    return closed(changer) == FAN_NAMES_LET && fan_names_settled(&changer->names);
}

/* Waits until this thread alone changes names. false: for too long, or the daemon is gone. Where it
 * was too long it is not waited for again before it went well: a file is being copied, perhaps. */
static bool enter(const struct fan_changer *changer)
{
    static bool in_vain;
    struct fan_names_header *header = changer->names.header;
    unsigned waits = __atomic_load_n(&in_vain, __ATOMIC_RELAXED) ? 1 : WAITS;
    for (unsigned i = 0; i < waits; i++) {
        if (!fan_names_kept(&changer->names) || closed(changer) == FAN_NAMES_NEVER)
            return false;
        if (may_change(changer) && lock(header, changer->thread)) {
            if (may_change(changer)) {
                __atomic_store_n(&in_vain, false, __ATOMIC_RELAXED);
                return true;
            }
            leave(changer);
        }
        struct timespec pause = {0, WAIT_NS};
        FAN_SYS(nanosleep, &pause, NULL);
    }
    __atomic_store_n(&in_vain, true, __ATOMIC_RELAXED);
    return false;
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

static bool is_home(const struct fan_changer *changer, const char *directory, size_t bytes,
                    uint32_t mount)
{
    uint32_t home = fan_names_home(&changer->names, mount, directory, bytes);
    return home == changer->names.header->rank;
}

/* As `enter`, to change a name. Where its home is another rank there is nothing to wait for. */
static bool enter_for(const struct fan_changer *changer, const struct fan_names_path *path)
{
    struct fan_table_path at = whole(path), above = fan_table_parent(&at);
    return is_home(changer, above.text, above.bytes, above.mount) && enter(changer);
}

static bool has_room(const struct fan_changer *changer, const struct fan_names_path *path,
                     uint32_t target_bytes)
{
    const struct fan_names_header *header = changer->names.header;
    return header->count < header->bucket_count &&
           fan_table_lacks(&changer->names, (uint32_t)path->bytes, target_bytes) == 0;
}

/* Adds to the log, as what is done then cannot be undone by a kill. From here to `settle` readers
 * wait. false: it has no room, or the daemon has ended it. */
static bool commit(const struct fan_changer *changer, struct fan_change *change, const char *path,
                   const char *other)
{
    struct fan_names_header *header = changer->names.header;
    uint64_t end = __atomic_load_n(&header->log_end, __ATOMIC_ACQUIRE);
    size_t path_room = fan_table_padded(change->path_bytes);
    change->bytes = (uint32_t)(sizeof(*change) + path_room + fan_table_padded(change->other_bytes));
    if ((end & FAN_NAMES_LOG_ENDED) || change->bytes > FAN_NAMES_LOG_BYTES - end)
        return false;
    char *at = (char *)header + FAN_NAMES_HEADER_BYTES + end;
    memcpy(at, change, sizeof(*change));
    memcpy(at + sizeof(*change), path, change->path_bytes);
    memcpy(at + sizeof(*change) + path_room, other, change->other_bytes);
    fan_table_turn(&changer->names);
    if (__atomic_compare_exchange_n(&header->log_end, &end, end + change->bytes, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        return true;
    fan_table_turn(&changer->names);
    return false;
}

/* Ends a change, and notes its time at the directory. */
static void settle(struct fan_changer *changer, struct fan_name *directory, int64_t when_ns)
{
    struct fan_names_header *header = changer->names.header;
    if (directory != NULL)
        fan_table_store((uint64_t *)&directory->changed_ns, (uint64_t)when_ns);
    fan_table_turn(&changer->names);
    changer->wake = __atomic_exchange_n(&header->awake, 1, __ATOMIC_SEQ_CST) == 0;
}

static void set(const struct fan_changer *changer, struct fan_name *directory,
                const struct fan_names_path *path, const struct fan_output_attr *attr, bool ask)
{
    struct fan_table_path at = whole(path);
    struct fan_table_value value = {attr, "", 0, ask};
    fan_table_put(&changer->names, directory, &at, &value);
}

static struct fan_change change_of(const struct fan_changer *changer, enum fan_change_kind kind,
                                   const struct fan_names_path *path, uint64_t object)
{
    return (struct fan_change){.kind = (uint16_t)kind,
                               .mount = (uint16_t)path->mount,
                               .pid = changer->pid,
                               .path_bytes = (uint32_t)path->bytes,
                               .object = object,
                               .when_ns = now_ns()};
}

static uint64_t new_object(const struct fan_changer *changer)
{
    struct fan_names_header *header = changer->names.header;
    return (uint64_t)header->rank << OBJECT_RANK_SHIFT | OWN_OBJECTS_BIT | ++header->last_object;
}

static struct fan_names_draft *draft_at(const struct fan_changer *changer, uint64_t object)
{
    return &changer->names.header->drafts[object % FAN_NAMES_DRAFTS];
}

static bool is_free(const struct fan_changer *changer, const struct fan_names_path *path)
{
    struct fan_table_path at = whole(path);
    return fan_table_find(&changer->names, &at) == NULL;
}

static int create(struct fan_changer *changer, const struct fan_names_path *path,
                  struct fan_output_attr *attr)
{
    struct fan_name *directory = directory_of(changer, path);
    if (directory == NULL || !is_free(changer, path) || !has_room(changer, path, 0))
        return FAN_NAMES_ASK;
    attr->object = new_object(changer);
    attr->ino = INODE_BIT | attr->object;
    struct fan_names_draft *draft = draft_at(changer, attr->object);
    struct fan_change change = change_of(changer, FAN_CHANGE_CREATED, path, attr->object);
    change.attr = *attr;
    if (draft->object != 0 || !commit(changer, &change, path->text, ""))
        return FAN_NAMES_ASK;
    struct fan_table_path at = whole(path);
    set(changer, directory, path, NULL, true);
    struct fan_name *name = fan_table_find(&changer->names, &at);
    name->attr.object = attr->object;
    uint64_t unit = fan_table_unit(&changer->names, name);
    *draft = (struct fan_names_draft){attr->object, unit, changer->pid};
    settle(changer, directory, change.when_ns);
    return 0;
}

int fan_change_create(struct fan_changer *changer, const struct fan_names_path *path,
                      struct fan_output_attr *attr)
{
    if (!enter_for(changer, path))
        return FAN_NAMES_ASK;
    int rc = create(changer, path, attr);
    leave(changer);
    return rc;
}

static int publish(struct fan_changer *changer, uint64_t object, struct fan_output_attr *attr)
{
    struct fan_names_draft *draft = draft_at(changer, object);
    if (draft->object != object || draft->pid != changer->pid)
        return FAN_NAMES_ASK;
    struct fan_name *name = fan_table_at(&changer->names, draft->unit);
    struct fan_name *directory = fan_table_at(&changer->names, name->parent);
    struct fan_names_path path = {name->mount, (const char *)(name + 1), name->path_bytes, 0};
    struct fan_change change = change_of(changer, FAN_CHANGE_PUBLISHED, &path, object);
    attr->object = object;
    attr->ino = INODE_BIT | object;
    change.attr = *attr;
    if (!commit(changer, &change, path.text, ""))
        return FAN_NAMES_ASK;
    draft->object = 0;
    set(changer, directory, &path, attr, false);
    settle(changer, directory, change.when_ns);
    return 0;
}

int fan_change_publish(struct fan_changer *changer, uint64_t object, struct fan_output_attr *attr)
{
    uint64_t there = __atomic_load_n(&draft_at(changer, object)->object, __ATOMIC_RELAXED);
    if (there != object || !enter(changer)) /* of another home, or the daemon's by now */
        return FAN_NAMES_ASK;
    int rc = publish(changer, object, attr);
    leave(changer);
    return rc;
}

/* A finished file or link, which nobody is writing anew. */
static bool is_plain(const struct fan_name *name)
{
    return name != NULL && name->flags == FAN_NAME_ENTRY &&
           (S_ISREG(name->attr.mode) || S_ISLNK(name->attr.mode));
}

/* Its object, if that is a file of this rank's. */
static bool has_own_object(const struct fan_changer *changer, const struct fan_name *name,
                           uint64_t *object)
{
    *object = S_ISREG(name->attr.mode) ? name->attr.object : 0;
    return *object == 0 || *object >> OBJECT_RANK_SHIFT == changer->names.header->rank;
}

static int move(struct fan_changer *changer, const struct fan_names_path *from,
                const struct fan_names_path *to, bool replace, uint64_t *gone)
{
    const struct fan_names *names = &changer->names;
    struct fan_name *source = directory_of(changer, from), *target = directory_of(changer, to);
    struct fan_table_path old_path = whole(from), new_path = whole(to);
    struct fan_name *old = source != NULL ? fan_table_find(names, &old_path) : NULL;
    struct fan_name *new = target != NULL ? fan_table_find(names, &new_path) : NULL;
    *gone = 0;
    uint64_t object;
    if (target == NULL || !is_plain(old) || !has_own_object(changer, old, &object) ||
        from->mount != to->mount || old == new)
        return FAN_NAMES_ASK;
    if (new != NULL && (!replace || !is_plain(new) || !has_own_object(changer, new, gone)))
        return FAN_NAMES_ASK;
    struct fan_output_attr attr = old->attr;
    struct fan_change change = change_of(changer, FAN_CHANGE_MOVED, from, object);
    change.other_bytes = (uint32_t)to->bytes;
    change.gone = *gone;
    if (!has_room(changer, to, old->target_bytes) ||
        !commit(changer, &change, from->text, to->text))
        return FAN_NAMES_ASK;
    const char *link = (const char *)(old + 1) + fan_table_padded(old->path_bytes);
    struct fan_table_value value = {&attr, link, old->target_bytes, false};
    fan_table_put(names, target, &new_path, &value);
    set(changer, source, from, NULL, false);
    fan_table_store((uint64_t *)&source->changed_ns, (uint64_t)change.when_ns);
    settle(changer, target, change.when_ns);
    return 0;
}

int fan_change_move(struct fan_changer *changer, const struct fan_names_path *from,
                    const struct fan_names_path *to, bool replace, uint64_t *gone)
{
    if (!enter_for(changer, from))
        return FAN_NAMES_ASK;
    int rc = move(changer, from, to, replace, gone);
    leave(changer);
    return rc;
}

/* A directory, all of whose names are known: there are none. */
static bool is_empty(const struct fan_name *name)
{
    const uint32_t there = FAN_NAME_ENTRY | FAN_NAME_COVERED;
    return name != NULL && name->flags == (there | FAN_NAME_OPEN) && S_ISDIR(name->attr.mode) &&
           name->children == 0;
}

static int drop(struct fan_changer *changer, const struct fan_names_path *path, bool is_directory,
                uint64_t *gone)
{
    struct fan_name *directory = directory_of(changer, path);
    struct fan_table_path at = whole(path);
    struct fan_name *name = directory != NULL ? fan_table_find(&changer->names, &at) : NULL;
    *gone = 0;
    if (is_directory ? !is_empty(name) : !is_plain(name) || !has_own_object(changer, name, gone))
        return FAN_NAMES_ASK;
    struct fan_change change = change_of(changer, FAN_CHANGE_REMOVED, path, 0);
    change.gone = *gone;
    if (!commit(changer, &change, path->text, ""))
        return FAN_NAMES_ASK;
    if (is_directory)
        fan_table_uncover(&changer->names, name);
    set(changer, directory, path, NULL, false);
    settle(changer, directory, change.when_ns);
    return 0;
}

int fan_change_remove(struct fan_changer *changer, const struct fan_names_path *path,
                      bool directory, uint64_t *gone)
{
    if (!enter_for(changer, path))
        return FAN_NAMES_ASK;
    int rc = drop(changer, path, directory, gone);
    leave(changer);
    return rc;
}

static int make(struct fan_changer *changer, const struct fan_names_path *path,
                struct fan_output_attr *attr)
{
    struct fan_name *directory = directory_of(changer, path);
    if (directory == NULL || !is_free(changer, path) || !has_room(changer, path, 0))
        return FAN_NAMES_ASK;
    uint64_t object = new_object(changer);
    struct fan_change change = change_of(changer, FAN_CHANGE_MADE, path, object);
    attr->ino = INODE_BIT | object;
    attr->atime_ns = attr->mtime_ns = attr->ctime_ns = change.when_ns;
    change.attr = *attr;
    if (!commit(changer, &change, path->text, ""))
        return FAN_NAMES_ASK;
    struct fan_table_path at = whole(path);
    set(changer, directory, path, attr, false);
    if (is_home(changer, path->text, path->bytes, path->mount)) {
        struct fan_name *made = fan_table_cover(&changer->names, &at);
        fan_table_set_flags(made, made->flags | FAN_NAME_OPEN);
    }
    settle(changer, directory, change.when_ns);
    return 0;
}

int fan_change_make(struct fan_changer *changer, const struct fan_names_path *path,
                    struct fan_output_attr *attr)
{
    if (!enter_for(changer, path))
        return FAN_NAMES_ASK;
    int rc = make(changer, path, attr);
    leave(changer);
    return rc;
}
