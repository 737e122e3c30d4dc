#include "index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../format/pack_format.h"

static int refuse(struct fan_fault *fault, const char *field, uint64_t offset)
{
    fault->field = field;
    fault->offset = offset;
    return -EINVAL;
}

#define REFUSE(fault, field)                                                                       \
    refuse(fault, "header." #field, offsetof(struct fan_index_header, field))

static int check_identity(const struct fan_index_header *header, uint64_t bytes,
                          struct fan_fault *fault)
{
    if (memcmp(header->magic, FAN_INDEX_MAGIC, sizeof(header->magic)) != 0)
        return REFUSE(fault, magic);
    if (header->version != FAN_FORMAT_VERSION)
        return REFUSE(fault, version);
    if (header->layout_id != FAN_INDEX_LAYOUT_ID)
        return REFUSE(fault, layout_id);
    if (header->file_bytes != bytes)
        return REFUSE(fault, file_bytes);
    if (header->section_count != FAN_SECTION_COUNT)
        return REFUSE(fault, section_count);
    return 0;
}

static const uint32_t section_entry_bytes[FAN_SECTION_COUNT] = {
    [FAN_SECTION_RECORDS] = sizeof(struct fan_record),
    [FAN_SECTION_SLOTS] = sizeof(uint64_t),
    [FAN_SECTION_NAMES] = 1,
    [FAN_SECTION_OWNERS] = sizeof(struct fan_owner),
    [FAN_SECTION_LINKS] = sizeof(struct fan_link),
    [FAN_SECTION_PACKS] = sizeof(struct fan_pack_info),
};

static const char *const section_names[FAN_SECTION_COUNT] = {
    "sections[records]", "sections[slots]", "sections[names]",
    "sections[owners]",  "sections[links]", "sections[packs]",
};

static int check_section(const struct fan_index_header *header, unsigned kind,
                         struct fan_fault *fault)
{
    const struct fan_section *section = &header->sections[kind];
    uint64_t at = offsetof(struct fan_index_header, sections) + kind * sizeof(*section);
    uint64_t entry = section_entry_bytes[kind];
    bool sane = section->kind == kind && section->entry_bytes == entry &&
                section->offset >= FAN_INDEX_HEADER_BYTES &&
                section->offset % FAN_SECTION_ALIGN_BYTES == 0 &&
                section->offset <= header->file_bytes &&
                section->count <= (header->file_bytes - section->offset) / entry;
    return sane ? 0 : refuse(fault, section_names[kind], at);
}

static int check_counts(const struct fan_index_header *header, struct fan_fault *fault)
{
    const struct fan_section *sections = header->sections;
    uint64_t records = header->record_count;
    if (records == 0 || records != sections[FAN_SECTION_RECORDS].count || records > UINT32_MAX)
        return REFUSE(fault, record_count);
    if (sections[FAN_SECTION_SLOTS].count <= records)
        return refuse(fault, section_names[FAN_SECTION_SLOTS],
                      offsetof(struct fan_index_header, sections) +
                          FAN_SECTION_SLOTS * sizeof(struct fan_section));
    if (header->pack_count != sections[FAN_SECTION_PACKS].count)
        return REFUSE(fault, pack_count);
    if (header->max_probe > sections[FAN_SECTION_SLOTS].count)
        return REFUSE(fault, max_probe);
    if (header->block_bytes < 4096 || header->block_bytes > (1u << 30) ||
        (header->block_bytes & (header->block_bytes - 1)) != 0)
        return REFUSE(fault, block_bytes);
    return 0;
}

static int check_root(const struct fan_index *index, struct fan_fault *fault)
{
    const struct fan_record *root = &index->records[0];
    uint64_t at = index->header->sections[FAN_SECTION_RECORDS].offset;
    if (!S_ISDIR(root->mode))
        return refuse(fault, "records[0].mode", at + offsetof(struct fan_record, mode));
    if (root->parent != 0)
        return refuse(fault, "records[0].parent", at + offsetof(struct fan_record, parent));
    return 0;
}

int fan_index_attach(struct fan_index *index, const void *base, uint64_t bytes,
                     struct fan_fault *fault)
{
    const struct fan_index_header *header = base;
    if (bytes < FAN_INDEX_HEADER_BYTES)
        return refuse(fault, "header (truncated)", bytes);
    int rc = check_identity(header, bytes, fault);
    for (unsigned kind = 0; rc == 0 && kind < FAN_SECTION_COUNT; kind++)
        rc = check_section(header, kind, fault);
    if (rc == 0)
        rc = check_counts(header, fault);
    if (rc != 0)
        return rc;

    const char *start = base;
    const struct fan_section *sections = header->sections;
    *index = (struct fan_index){
        .header = header,
        .records = (const void *)(start + sections[FAN_SECTION_RECORDS].offset),
        .slots = (const void *)(start + sections[FAN_SECTION_SLOTS].offset),
        .names = start + sections[FAN_SECTION_NAMES].offset,
        .owners = (const void *)(start + sections[FAN_SECTION_OWNERS].offset),
        .links = (const void *)(start + sections[FAN_SECTION_LINKS].offset),
        .packs = (const void *)(start + sections[FAN_SECTION_PACKS].offset),
        .record_count = sections[FAN_SECTION_RECORDS].count,
        .slot_count = sections[FAN_SECTION_SLOTS].count,
        .names_bytes = sections[FAN_SECTION_NAMES].count,
        .owner_count = sections[FAN_SECTION_OWNERS].count,
        .link_count = sections[FAN_SECTION_LINKS].count,
        .pack_count = sections[FAN_SECTION_PACKS].count,
    };
    return check_root(index, fault);
}

int fan_index_name(const struct fan_index *index, const struct fan_record *record,
                   const char **name, size_t *name_bytes)
{
    if (record->name_offset > index->names_bytes ||
        record->name_bytes > index->names_bytes - record->name_offset)
        return -EIO;
    *name = index->names + record->name_offset;
    *name_bytes = record->name_bytes;
    return 0;
}

static uint64_t first_slot(uint64_t hash, uint64_t slot_count)
{
    return (uint64_t)(((unsigned __int128)hash * slot_count) >> 64);
}

static uint64_t slot_tag(uint64_t hash)
{
    return hash << FAN_SLOT_ID_BITS;
}

/* Names are short: without a call. */
static inline bool same_bytes(const char *a, const char *b, size_t n)
{
    const unsigned char *p = (const void *)a, *q = (const void *)b;
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        if (fan_hash_word(p + i) != fan_hash_word(q + i))
            return false;
    }
    return fan_hash_tail(p + n, n % 8, n) == fan_hash_tail(q + n, n % 8, n);
}

static bool is_child(const struct fan_index *index, uint64_t id, uint64_t parent,
                     const char *name, size_t name_bytes)
{
    const struct fan_record *record = fan_index_record(index, id);
    const char *own;
    size_t own_bytes;
    return record != NULL && id > parent && record->parent == parent &&
           record->name_bytes == name_bytes &&
           fan_index_name(index, record, &own, &own_bytes) == 0 &&
           same_bytes(own, name, name_bytes);
}

int64_t fan_index_child(const struct fan_index *index, uint64_t parent, uint64_t parent_hash,
                        const char *name, size_t name_bytes, uint64_t *hash)
{
    if (name_bytes == 0 || name_bytes > FAN_NAME_MAX_BYTES)
        return -ENOENT;
    uint64_t child_hash = fan_path_hash_step(parent_hash, name, name_bytes);
    uint64_t at = first_slot(child_hash, index->slot_count);
    uint64_t tag = slot_tag(child_hash);
    if (hash != NULL)
        *hash = child_hash;
    for (uint64_t probe = 0; probe <= index->header->max_probe; probe++) {
        uint64_t slot = index->slots[at];
        if (slot == 0)
            return -ENOENT;
        if ((slot & ~FAN_SLOT_ID_MASK) == tag) {
            uint64_t id = (slot & FAN_SLOT_ID_MASK) - 1;
            if (is_child(index, id, parent, name, name_bytes))
                return (int64_t)id;
        }
        if (++at == index->slot_count)
            at = 0;
    }
    return -ENOENT;
}

/* The parent of a record; ids fall strictly on the way to the root, so no chain can loop. */
static int64_t parent_of(const struct fan_index *index, uint64_t id)
{
    const struct fan_record *record = fan_index_record(index, id);
    return record != NULL && record->parent < id ? (int64_t)record->parent : -EIO;
}

int64_t fan_index_path(const struct fan_index *index, uint64_t id, char *buffer, size_t capacity)
{
    size_t start = capacity;
    while (id != 0) {
        int64_t parent = parent_of(index, id);
        const char *name;
        size_t bytes;
        if (parent < 0 || fan_index_name(index, &index->records[id], &name, &bytes) != 0)
            return -EIO;
        size_t slash = start < capacity ? 1 : 0;
        if (bytes + slash > start)
            return -ERANGE;
        if (slash)
            buffer[--start] = '/';
        start -= bytes;
        memcpy(buffer + start, name, bytes);
        id = (uint64_t)parent;
    }
    memmove(buffer, buffer + start, capacity - start);
    return (int64_t)(capacity - start);
}

/* Threads with small stacks come here: of a deeper tree the way is walked several times. */
enum { WAY_KEPT = 64, DEPTH_MAX = 4096 };

/* Goes on with a hash along the last `count` records of `way`, which leads from a leaf up. */
static int hash_way(const struct fan_index *index, const uint64_t *way, unsigned count,
                    uint64_t *hash)
{
    while (count > 0) {
        const char *name;
        size_t bytes;
        if (fan_index_name(index, &index->records[way[--count]], &name, &bytes) != 0)
            return -EIO;
        *hash = fan_path_hash_step(*hash, name, bytes);
    }
    return 0;
}

/* Records `skip` levels above `id` and up from there. */
static void keep_way(const struct fan_index *index, uint64_t id, unsigned skip, uint64_t *way,
                     unsigned count)
{
    while (skip-- > 0)
        id = index->records[id].parent;
    for (unsigned i = 0; i < count; i++) {
        way[i] = id;
        id = index->records[id].parent;
    }
}

/* Names are hashed from the root down, and found from the leaf up. Deeper trees than a path of
 * PATH_MAX can name exist; more than DEPTH_MAX levels do not. */
int fan_index_path_hash(const struct fan_index *index, uint64_t id, uint64_t *hash)
{
    uint64_t way[WAY_KEPT];
    unsigned depth = 0;
    for (uint64_t at = id; at != 0; depth++) {
        int64_t parent = parent_of(index, at);
        if (parent < 0 || depth == DEPTH_MAX)
            return -EIO;
        if (depth < WAY_KEPT)
            way[depth] = at;
        at = (uint64_t)parent;
    }
    *hash = FAN_PATH_HASH_ROOT;
    if (depth <= WAY_KEPT)
        return hash_way(index, way, depth, hash);
    for (unsigned left = depth; left > 0;) {
        unsigned count = left < WAY_KEPT ? left : WAY_KEPT;
        left -= count;
        keep_way(index, id, left, way, count);
        if (hash_way(index, way, count, hash) != 0)
            return -EIO;
    }
    return 0;
}

int64_t fan_index_lookup(const struct fan_index *index, const char *relpath, size_t bytes)
{
    int64_t id = 0;
    uint64_t hash = FAN_PATH_HASH_ROOT;
    const char *end = relpath + bytes;
    while (relpath < end && id >= 0) {
        const char *slash = memchr(relpath, '/', (size_t)(end - relpath));
        const char *stop = slash != NULL ? slash : end;
        id = fan_index_child(index, (uint64_t)id, hash, relpath, (size_t)(stop - relpath), &hash);
        relpath = slash != NULL ? slash + 1 : end;
    }
    return id;
}

int fan_index_children(const struct fan_index *index, uint64_t id, uint64_t *first,
                       uint64_t *count)
{
    const struct fan_record *record = fan_index_record(index, id);
    if (record == NULL || !S_ISDIR(record->mode))
        return -EIO;
    *first = record->offset;
    *count = record->stored_size;
    if (*count == 0)
        return 0;
    bool sane = *first > id && *first < index->record_count &&
                *count <= index->record_count - *first;
    return sane ? 0 : -EIO;
}

int fan_index_target(const struct fan_index *index, const struct fan_record *record,
                     const char **target, size_t *target_bytes)
{
    if (record->offset > index->names_bytes || record->logical_size == 0 ||
        record->logical_size > index->names_bytes - record->offset)
        return -EIO;
    *target = index->names + record->offset;
    *target_bytes = record->logical_size;
    return 0;
}

static uint64_t first_link(const struct fan_index *index, uint64_t id)
{
    uint64_t low = 0, high = index->link_count;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (index->links[middle].record < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < index->link_count && index->links[low].record == id;
    return found ? index->links[low].first : id;
}

uint64_t fan_index_inode(const struct fan_index *index, uint64_t id)
{
    const struct fan_record *record = fan_index_record(index, id);
    bool linked = record != NULL && !S_ISDIR(record->mode) && record->nlink > 1;
    return (linked ? first_link(index, id) : id) + 2;
}

static void split_time(int64_t mtime_ns, struct timespec *time)
{
    int64_t seconds = mtime_ns / 1000000000;
    int64_t rest = mtime_ns % 1000000000;
    if (rest < 0) {
        seconds--;
        rest += 1000000000;
    }
    time->tv_sec = seconds;
    time->tv_nsec = rest;
}

int fan_index_stat(const struct fan_index *index, uint64_t id, struct stat *st)
{
    const struct fan_record *record = fan_index_record(index, id);
    if (record == NULL || record->owner >= index->owner_count)
        return -EIO;
    const struct fan_owner *owner = &index->owners[record->owner];
    memset(st, 0, sizeof(*st));
    st->st_ino = fan_index_inode(index, id);
    st->st_mode = record->mode;
    st->st_nlink = record->nlink;
    st->st_uid = owner->uid;
    st->st_gid = owner->gid;
    st->st_size = S_ISDIR(record->mode) ? 4096 : (off_t)record->logical_size;
    st->st_blksize = 4096;
    st->st_blocks =
        S_ISLNK(record->mode) ? 0 : (st->st_size / 4096 + (st->st_size % 4096 != 0)) * 8;
    split_time(record->mtime_ns, &st->st_mtim);
    st->st_atim = st->st_mtim;
    st->st_ctim = st->st_mtim;
    return 0;
}

static int put_slot(uint64_t *slots, uint64_t slot_count, uint64_t hash, uint64_t id,
                    uint32_t *max_probe)
{
    uint64_t at = first_slot(hash, slot_count);
    for (uint64_t probe = 0; probe < slot_count; probe++) {
        if (slots[at] == 0) {
            slots[at] = slot_tag(hash) | (id + 1);
            if (probe > *max_probe)
                *max_probe = (uint32_t)probe;
            return 0;
        }
        if (++at == slot_count)
            at = 0;
    }
    return -EINVAL;
}

int fan_index_fill_slots(const struct fan_record *records, uint64_t record_count,
                         const char *names, uint64_t names_bytes, uint64_t *slots,
                         uint64_t slot_count, uint32_t *max_probe)
{
    const struct fan_index index = {
        .records = records,
        .names = names,
        .record_count = record_count,
        .names_bytes = names_bytes,
    };
    /* Parents come first, so one pass can keep each directory's hash where its child finds it. */
    uint64_t *hashes = calloc(record_count, sizeof(*hashes));
    if (hashes == NULL)
        return -ENOMEM;
    int rc = slot_count > record_count ? 0 : -EINVAL;
    *max_probe = 0;
    hashes[0] = FAN_PATH_HASH_ROOT;
    for (uint64_t id = 1; rc == 0 && id < record_count; id++) {
        const char *name;
        size_t bytes;
        int64_t parent = parent_of(&index, id);
        if (parent < 0 || fan_index_name(&index, &records[id], &name, &bytes) != 0) {
            rc = -EINVAL;
            break;
        }
        hashes[id] = fan_path_hash_step(hashes[parent], name, bytes);
        rc = put_slot(slots, slot_count, hashes[id], id, max_probe);
    }
    free(hashes);
    return rc;
}
