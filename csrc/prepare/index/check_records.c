#include "queries.h"

#include <errno.h>
#include <string.h>

#include "../../common/index.h"
#include "../../pack/content.h"

/* Each of these checks returns the name of the bad field, or NULL. */

static const char *check_parent(const struct fan_index *index, uint64_t id)
{
    uint64_t first, count, parent = index->records[id].parent;
    if (id == 0)
        return parent == 0 ? NULL : "parent";
    if (parent >= id || fan_index_children(index, parent, &first, &count) != 0)
        return "parent";
    return id >= first && id - first < count ? NULL : "parent";
}

/* Returns whether a name may be that of an entry in a directory. */
static bool is_name(const char *name, size_t bytes)
{
    if (bytes == 0 || memchr(name, '/', bytes) != NULL || memchr(name, '\0', bytes) != NULL)
        return false;
    return !(name[0] == '.' && (bytes == 1 || (bytes == 2 && name[1] == '.')));
}

/* Returns whether a name comes after the one before it. So siblings are sorted, and no name comes
 * twice. */
static bool is_after(const char *name, size_t bytes, const char *before, size_t before_bytes)
{
    int order = memcmp(before, name, bytes < before_bytes ? bytes : before_bytes);
    return order < 0 || (order == 0 && before_bytes < bytes);
}

static const char *check_name(const struct fan_index *index, uint64_t id)
{
    const char *name, *before;
    size_t bytes, before_bytes;
    const struct fan_record *record = &index->records[id];
    if (id == 0)
        return NULL;
    if (fan_index_name(index, record, &name, &bytes) != 0 || !is_name(name, bytes))
        return "name_offset";
    if (id == 1 || record[-1].parent != record->parent)
        return NULL;
    bool sorted = fan_index_name(index, record - 1, &before, &before_bytes) == 0 &&
                  is_after(name, bytes, before, before_bytes);
    return sorted ? NULL : "name_offset";
}

static const char *check_target(const struct fan_index *index, const struct fan_record *record)
{
    const char *target;
    size_t bytes;
    bool sane = fan_index_target(index, record, &target, &bytes) == 0 &&
                memchr(target, '\0', bytes) == NULL;
    return sane ? NULL : "offset";
}

static const char *check_file(const struct fan_index *index, const struct fan_record *record)
{
    if (record->logical_size > 0 && record->pack >= index->pack_count)
        return "pack";
    return fan_content_check(index, record) == 0 ? NULL : "offset";
}

static const char *check_kind(const struct fan_index *index, uint64_t id)
{
    uint64_t first, count;
    const struct fan_record *record = &index->records[id];
    switch (record->mode & S_IFMT) {
    case S_IFREG:
        return check_file(index, record);
    case S_IFLNK:
        return check_target(index, record);
    case S_IFDIR:
        return fan_index_children(index, id, &first, &count) == 0 ? NULL : "offset";
    default:
        return "mode";
    }
}

static const char *check_record(const struct fan_index *index, uint64_t id)
{
    const char *field = index->records[id].owner < index->owner_count ? NULL : "owner";
    if (field == NULL)
        field = check_parent(index, id);
    if (field == NULL)
        field = check_name(index, id);
    return field != NULL ? field : check_kind(index, id);
}

/* Checks that every child names this directory as its parent, so that no two directories share a
 * child. Runs after the other checks, which report the child if only its parent field is wrong. */
static const char *check_children(const struct fan_index *index, uint64_t id)
{
    uint64_t first, count;
    if (!S_ISDIR(index->records[id].mode))
        return NULL;
    if (fan_index_children(index, id, &first, &count) != 0)
        return "offset";
    for (uint64_t child = first; child < first + count; child++)
        if (index->records[child].parent != id)
            return "offset";
    return NULL;
}

/* Checks that the path of each child of `directory` leads to that child. Their records must have
 * been checked. */
static int look_up_children(const struct fan_index *index, uint64_t directory, uint64_t *record)
{
    uint64_t first, count, hash;
    *record = directory;
    if (fan_index_children(index, directory, &first, &count) != 0 ||
        fan_index_path_hash(index, directory, &hash) != 0)
        return -EIO;
    for (*record = first; *record < first + count; ++*record) {
        const struct fan_record *child = &index->records[*record];
        struct fan_child found;
        if (fan_index_child(index, directory, hash, index->names + child->name_offset,
                            child->name_bytes, &found) != 0 ||
            found.id != *record)
            return -EIO;
    }
    return 0;
}

typedef const char *check_of_record(const struct fan_index *index, uint64_t id);

static int check_all(const struct fan_index *index, check_of_record *check, uint64_t *record,
                     const char **field)
{
    for (uint64_t id = 0; id < index->record_count; id++) {
        *field = check(index, id);
        *record = id;
        if (*field != NULL)
            return -EIO;
    }
    return 0;
}

int fan_core_check_records(const void *base, uint64_t bytes, uint64_t *record, const char **field)
{
    struct fan_index index;
    struct fan_fault fault;
    int rc = fan_index_attach(&index, base, bytes, &fault);
    if (rc == 0)
        rc = check_all(&index, check_record, record, field);
    return rc != 0 ? rc : check_all(&index, check_children, record, field);
}

int fan_core_check_lookups(const void *base, uint64_t bytes, uint64_t *record)
{
    struct fan_index index;
    struct fan_fault fault;
    int rc = fan_index_attach(&index, base, bytes, &fault);
    for (uint64_t id = 0; rc == 0 && id < index.record_count; id++)
        if (S_ISDIR(index.records[id].mode))
            rc = look_up_children(&index, id, record);
    return rc;
}
