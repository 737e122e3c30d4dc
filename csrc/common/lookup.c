#include <errno.h>
#include <string.h>

#include "../format/pack_format.h"
#include "dentry.h"
#include "index.h"

/* Compares names without a call, because they are short. */
static inline bool same_bytes(const void *a, const void *b, size_t n)
{
    const unsigned char *p = a, *q = b;
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        if (fan_hash_word(p + i) != fan_hash_word(q + i))
            return false;
    }
    return fan_hash_tail(p + n, n % 8, n) == fan_hash_tail(q + n, n % 8, n);
}

static bool is_record(const struct fan_index *index, uint64_t id, uint64_t parent, const char *name,
                      size_t name_bytes)
{
    const struct fan_record *record = fan_index_record(index, id);
    const char *own;
    size_t own_bytes;
    return record != NULL && id > parent && record->parent == parent &&
           record->name_bytes == name_bytes &&
           fan_index_name(index, record, &own, &own_bytes) == 0 &&
           same_bytes(own, name, name_bytes);
}

static int found(const struct fan_index *index, uint64_t id, struct fan_child *child)
{
    child->id = id;
    child->mode = index->records[id].mode;
    child->dentry = NULL;
    return 0;
}

static int find_in_slots(const struct fan_index *index, uint64_t parent, const char *name,
                         size_t name_bytes, struct fan_child *child)
{
    uint64_t at = (uint64_t)(((unsigned __int128)child->hash * index->slot_count) >> 64);
    uint64_t tag = child->hash << FAN_SLOT_ID_BITS;
    for (uint64_t probe = 0; probe <= index->header->max_probe; probe++) {
        uint64_t slot = index->slots[at];
        if (slot == 0)
            return -ENOENT;
        uint64_t id = (slot & FAN_SLOT_ID_MASK) - 1;
        if ((slot & ~FAN_SLOT_ID_MASK) == tag && is_record(index, id, parent, name, name_bytes))
            return found(index, id, child);
        if (++at == index->slot_count)
            at = 0;
    }
    return -ENOENT;
}

uint64_t fan_index_dentry(const struct fan_index *index, uint64_t hash)
{
    uint64_t part = fan_part_of(hash, index->part_count);
    const struct fan_part *here = &index->parts[part];
    uint64_t first = here[0].first, end = here[1].first;
    if (first >= end || end > index->dentry_count)
        return FAN_NO_DENTRY;
    uint64_t pilots = fan_first_pilot(first, part);
    uint64_t bucket = fan_bucket_of(hash, fan_first_pilot(end, part + 1) - pilots);
    uint16_t pilot = index->pilots[pilots + bucket];
    return first + fan_place_of(hash, here->seed, pilot, end - first);
}

static bool is_dentry(const struct fan_index *index, const struct fan_dentry *dentry,
                      uint64_t parent, const char *name, size_t name_bytes)
{
    if (dentry->parent != parent || dentry->name_bytes != name_bytes)
        return false;
    if (name_bytes > FAN_DENTRY_NAME_BYTES)
        return is_record(index, dentry->id, parent, name, name_bytes);
    return same_bytes(dentry->name, name, name_bytes) && dentry->id > parent &&
           dentry->id < index->record_count;
}

static int find_dentry(const struct fan_index *index, uint64_t parent, const char *name,
                       size_t name_bytes, struct fan_child *child)
{
    uint64_t number = fan_index_dentry(index, child->hash);
    if (number == FAN_NO_DENTRY)
        return -ENOENT;
    const struct fan_dentry *dentry = &index->dentries[number];
    __builtin_prefetch(dentry); /* an uncached dentry takes as long as the tag */
    if (index->tags[number] != fan_tag_of(child->hash) ||
        !is_dentry(index, dentry, parent, name, name_bytes))
        return -ENOENT;
    child->id = dentry->id;
    child->mode = dentry->mode;
    child->dentry = dentry;
    return 0;
}

int fan_index_child(const struct fan_index *index, uint64_t parent, uint64_t parent_hash,
                    const char *name, size_t name_bytes, struct fan_child *child)
{
    if (name_bytes == 0 || name_bytes > FAN_NAME_MAX_BYTES)
        return -ENOENT;
    child->hash = fan_path_hash_step(parent_hash, name, name_bytes);
    return index->dentries != NULL ? find_dentry(index, parent, name, name_bytes, child)
                                   : find_in_slots(index, parent, name, name_bytes, child);
}

int64_t fan_index_lookup(const struct fan_index *index, const char *relpath, size_t bytes)
{
    struct fan_child at = {.hash = FAN_PATH_HASH_ROOT};
    const char *end = relpath + bytes;
    while (relpath < end) {
        const char *slash = memchr(relpath, '/', (size_t)(end - relpath));
        const char *stop = slash != NULL ? slash : end;
        int rc = fan_index_child(index, at.id, at.hash, relpath, (size_t)(stop - relpath), &at);
        if (rc != 0)
            return rc;
        relpath = slash != NULL ? slash + 1 : end;
    }
    return (int64_t)at.id;
}
