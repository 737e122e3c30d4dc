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

/* Returns the address where the name of a record should lie, between its two milestones. */
static inline uintptr_t name_guess(const struct fan_index *index, uint64_t id)
{
    const uint64_t *milestone = &index->milestones[id / FAN_RECORDS_PER_MILESTONE];
    uint64_t way = (milestone[1] - milestone[0]) * (id % FAN_RECORDS_PER_MILESTONE);
    return (uintptr_t)index->names + milestone[0] + way / FAN_RECORDS_PER_MILESTONE;
}

/* Returns 0 if the record has this parent and name, or -ENOENT. */
static int find_record(const struct fan_index *index, uint64_t id, uint64_t parent,
                       const char *name, size_t name_bytes, struct fan_child *child)
{
    const struct fan_record *record = fan_index_record(index, id);
    const char *own;
    size_t own_bytes;
    if (record == NULL)
        return -ENOENT;
    if (index->milestones != NULL) { /* the name comes together with the record, not after it */
        uintptr_t guess = name_guess(index, id);
        __builtin_prefetch((const void *)guess);
        __builtin_prefetch((const void *)(guess + name_bytes));
    }
    if (id <= parent || record->parent != parent || record->name_bytes != name_bytes ||
        fan_index_name(index, record, &own, &own_bytes) != 0 || !same_bytes(own, name, name_bytes))
        return -ENOENT;
    child->id = id;
    child->mode = record->mode;
    return 0;
}

static inline uint64_t slot_at(const struct fan_index *index, uint64_t at)
{
    return index->slots != NULL ? index->slots[at] : index->old_slots[at];
}

static int find_in_slots(const struct fan_index *index, uint64_t parent, const char *name,
                         size_t name_bytes, struct fan_child *child)
{
    uint64_t at = fan_first_slot(child->hash, index->slot_count);
    uint64_t tag = child->hash & index->tag_mask;
    for (uint64_t probe = 0; probe <= index->header->max_probe; probe++) {
        uint64_t slot = slot_at(index, at), id = (slot & index->id_mask) - 1;
        if (slot == 0)
            return -ENOENT;
        if (slot >> index->id_bits == tag &&
            find_record(index, id, parent, name, name_bytes, child) == 0)
            return 0;
        if (++at == index->slot_count)
            at = 0;
    }
    return -ENOENT;
}

/* Does find_in_slots in an index that has dentries. */
static int find_by_dentry(const struct fan_index *index, uint64_t parent, const char *name,
                          size_t name_bytes, struct fan_child *child)
{
    uint64_t hash = child->hash, part = fan_part_of(hash, index->part_count);
    const struct fan_part *here = &index->parts[part];
    uint64_t first = here[0].first, end = here[1].first;
    if (first >= end || end > index->dentry_count)
        return -ENOENT;
    uint64_t pilots = fan_first_pilot(first, part);
    uint64_t bucket = fan_bucket_of(hash, fan_first_pilot(end, part + 1) - pilots);
    uint16_t pilot = index->pilots[pilots + bucket];
    uint64_t number = first + fan_place_of(hash, here->seed, pilot, end - first);
    if (index->tags[number] != fan_tag_of(hash))
        return -ENOENT;
    const struct fan_dentry *dentry = &index->dentries[number];
    const struct fan_record *record = fan_index_record(index, dentry->id);
    if (name_bytes > sizeof(dentry->name))
        return find_record(index, dentry->id, parent, name, name_bytes, child);
    if (record == NULL || dentry->id <= parent || dentry->parent != parent ||
        dentry->name_bytes != name_bytes || !same_bytes(dentry->name, name, name_bytes))
        return -ENOENT;
    child->id = dentry->id;
    child->mode = record->mode;
    return 0;
}

int fan_index_child(const struct fan_index *index, uint64_t parent, uint64_t parent_hash,
                    const char *name, size_t name_bytes, struct fan_child *child)
{
    if (name_bytes == 0 || name_bytes > FAN_NAME_MAX_BYTES)
        return -ENOENT;
    child->hash = fan_path_hash_step(parent_hash, name, name_bytes);
    return index->dentries == NULL ? find_in_slots(index, parent, name, name_bytes, child)
                                   : find_by_dentry(index, parent, name, name_bytes, child);
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
