#include "index.h"

#include <errno.h>
#include <string.h>

#include "dentry.h"

static int refuse(struct fan_fault *fault, const char *field, uint64_t offset)
{
    fault->field = field;
    fault->offset = offset;
    return -EINVAL;
}

#define REFUSE(fault, field)                                                                       \
    refuse(fault, "header." #field, offsetof(struct fan_index_header, field))

static uint32_t section_count(const struct fan_index_header *header)
{
    static const uint32_t counts[] = {[1] = FAN_SECTION_DENTRIES,
                                      [2] = FAN_SECTION_MILESTONES,
                                      [FAN_INDEX_VERSION] = FAN_SECTION_COUNT};
    return counts[header->version];
}

static int check_identity(const struct fan_index_header *header, uint64_t bytes,
                          struct fan_fault *fault)
{
    if (memcmp(header->magic, FAN_INDEX_MAGIC, sizeof(header->magic)) != 0)
        return REFUSE(fault, magic);
    if (header->version == 0 || header->version > FAN_INDEX_VERSION)
        return REFUSE(fault, version);
    if (header->layout_id != FAN_INDEX_LAYOUT_ID)
        return REFUSE(fault, layout_id);
    if (header->file_bytes != bytes)
        return REFUSE(fault, file_bytes);
    if (header->section_count != section_count(header))
        return REFUSE(fault, section_count);
    return 0;
}

static const uint32_t section_entry_bytes[FAN_SECTION_COUNT] = {
    [FAN_SECTION_RECORDS] = sizeof(struct fan_record),
    [FAN_SECTION_SLOTS] = sizeof(uint32_t),
    [FAN_SECTION_NAMES] = 1,
    [FAN_SECTION_OWNERS] = sizeof(struct fan_owner),
    [FAN_SECTION_LINKS] = sizeof(struct fan_link),
    [FAN_SECTION_PACKS] = sizeof(struct fan_pack_info),
    [FAN_SECTION_DENTRIES] = sizeof(struct fan_dentry),
    [FAN_SECTION_PILOTS] = sizeof(uint16_t),
    [FAN_SECTION_PARTS] = sizeof(struct fan_part),
    [FAN_SECTION_TAGS] = 1,
    [FAN_SECTION_MILESTONES] = sizeof(uint64_t),
};

static const char *const section_names[FAN_SECTION_COUNT] = {
    "sections[records]", "sections[slots]", "sections[names]",      "sections[owners]",
    "sections[links]",   "sections[packs]", "sections[dentries]",   "sections[pilots]",
    "sections[parts]",   "sections[tags]",  "sections[milestones]",
};

static int refuse_section(unsigned kind, struct fan_fault *fault)
{
    return refuse(fault, section_names[kind],
                  offsetof(struct fan_index_header, sections) + kind * sizeof(struct fan_section));
}

static int check_section(const struct fan_index_header *header, unsigned kind,
                         struct fan_fault *fault)
{
    const struct fan_section *section = &header->sections[kind];
    uint64_t entry = section_entry_bytes[kind];
    if (kind == FAN_SECTION_SLOTS && header->version < FAN_INDEX_VERSION)
        entry = sizeof(uint64_t);
    bool sane = section->kind == kind && section->entry_bytes == entry &&
                section->offset >= FAN_INDEX_HEADER_BYTES &&
                section->offset % FAN_SECTION_ALIGN_BYTES == 0 &&
                section->offset <= header->file_bytes &&
                section->count <= (header->file_bytes - section->offset) / entry;
    return sane ? 0 : refuse_section(kind, fault);
}

static int check_counts(const struct fan_index_header *header, struct fan_fault *fault)
{
    const struct fan_section *sections = header->sections;
    uint64_t records = header->record_count;
    if (records == 0 || records != sections[FAN_SECTION_RECORDS].count || records > UINT32_MAX)
        return REFUSE(fault, record_count);
    if (header->pack_count != sections[FAN_SECTION_PACKS].count)
        return REFUSE(fault, pack_count);
    if (header->block_bytes < 4096 || header->block_bytes > (1u << 30) ||
        (header->block_bytes & (header->block_bytes - 1)) != 0)
        return REFUSE(fault, block_bytes);
    return 0;
}

static int check_slots(const struct fan_index_header *header, struct fan_fault *fault)
{
    uint64_t slots = header->sections[FAN_SECTION_SLOTS].count;
    if (slots <= header->record_count)
        return refuse_section(FAN_SECTION_SLOTS, fault);
    if (header->version == FAN_INDEX_VERSION &&
        header->sections[FAN_SECTION_MILESTONES].count != fan_milestone_count(header->record_count))
        return refuse_section(FAN_SECTION_MILESTONES, fault);
    return header->max_probe <= slots ? 0 : REFUSE(fault, max_probe);
}

/* Checks the dentries: all records but the root have one, and looking one up probes no slots. */
static int check_dentries(const struct fan_index_header *header, struct fan_fault *fault)
{
    const struct fan_section *sections = header->sections;
    uint64_t dentries = sections[FAN_SECTION_DENTRIES].count;
    uint64_t parts = fan_part_count(dentries);
    if (dentries != header->record_count - 1)
        return refuse_section(FAN_SECTION_DENTRIES, fault);
    if (sections[FAN_SECTION_PARTS].count != parts + 1)
        return refuse_section(FAN_SECTION_PARTS, fault);
    if (sections[FAN_SECTION_PILOTS].count != fan_first_pilot(dentries, parts))
        return refuse_section(FAN_SECTION_PILOTS, fault);
    if (sections[FAN_SECTION_TAGS].count != dentries)
        return refuse_section(FAN_SECTION_TAGS, fault);
    return header->max_probe == 0 ? 0 : REFUSE(fault, max_probe);
}

static bool has_dentries(const struct fan_index_header *header)
{
    return header->version == 2 && header->sections[FAN_SECTION_SLOTS].count == 0;
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
    for (unsigned kind = 0; rc == 0 && kind < section_count(header); kind++)
        rc = check_section(header, kind, fault);
    if (rc == 0)
        rc = check_counts(header, fault);
    if (rc == 0)
        rc = has_dentries(header) ? check_dentries(header, fault) : check_slots(header, fault);
    if (rc != 0)
        return rc;

    const char *start = base;
    const struct fan_section *sections = header->sections;
    *index = (struct fan_index){
        .header = header,
        .records = (const void *)(start + sections[FAN_SECTION_RECORDS].offset),
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
    const void *slots = start + sections[FAN_SECTION_SLOTS].offset;
    if (header->version == FAN_INDEX_VERSION) {
        index->slots = slots;
        index->id_bits = fan_slot_id_bits(header->record_count);
        index->tag_mask = (UINT64_C(1) << (32 - index->id_bits)) - 1;
        index->milestones = (const void *)(start + sections[FAN_SECTION_MILESTONES].offset);
    } else {
        index->old_slots = slots;
        index->id_bits = FAN_OLD_SLOT_ID_BITS;
        index->tag_mask = (UINT64_C(1) << (64 - FAN_OLD_SLOT_ID_BITS)) - 1;
    }
    index->id_mask = (UINT64_C(1) << index->id_bits) - 1;
    if (has_dentries(header)) {
        index->dentries = (const void *)(start + sections[FAN_SECTION_DENTRIES].offset);
        index->pilots = (const void *)(start + sections[FAN_SECTION_PILOTS].offset);
        index->parts = (const void *)(start + sections[FAN_SECTION_PARTS].offset);
        index->tags = (const void *)(start + sections[FAN_SECTION_TAGS].offset);
        index->dentry_count = sections[FAN_SECTION_DENTRIES].count;
        index->part_count = sections[FAN_SECTION_PARTS].count - 1;
    }
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

/* Returns the parent of a record. Every parent's id is smaller than its child's, so no chain can
 * loop. */
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

/* Hashes the names of the `depth` records that lead down to `id`. Names are found from the leaf up,
 * but hashed from the root down. A long way is first walked to remember some records on it, and
 * then from one of these to the next, because threads with small stacks call this: it needs 0.5 KiB
 * for each factor of WAY_KEPT in `depth`. */
static int hash_way(const struct fan_index *index, uint64_t id, uint64_t depth, uint64_t *hash)
{
    enum { WAY_KEPT = 64 };
    uint64_t way[WAY_KEPT];
    uint64_t step = (depth + WAY_KEPT - 1) / WAY_KEPT;
    unsigned marks = 0;
    for (uint64_t up = 0; up < depth; up++) {
        if (up % step == 0)
            way[marks++] = id;
        id = index->records[id].parent;
    }
    for (uint64_t below = depth - (marks - 1) * step; marks > 0; below = step) {
        uint64_t mark = way[--marks];
        const char *name;
        size_t bytes;
        int rc = 0;
        if (step > 1)
            rc = hash_way(index, mark, below, hash);
        else if ((rc = fan_index_name(index, &index->records[mark], &name, &bytes)) == 0)
            *hash = fan_path_hash_step(*hash, name, bytes);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int fan_index_path_hash(const struct fan_index *index, uint64_t id, uint64_t *hash)
{
    uint64_t depth = 0;
    for (uint64_t at = id; at != 0; depth++) {
        int64_t parent = parent_of(index, at);
        if (parent < 0)
            return -EIO;
        at = (uint64_t)parent;
    }
    *hash = FAN_PATH_HASH_ROOT;
    return depth == 0 ? 0 : hash_way(index, id, depth, hash);
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

uint64_t fan_index_first_name(const struct fan_index *index, uint64_t id)
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
    return (linked ? fan_index_first_name(index, id) : id) + 2;
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
    memset(st, 0, sizeof(*st));
    st->st_ino = fan_index_inode(index, id);
    st->st_mode = record->mode;
    st->st_nlink = record->nlink;
    st->st_uid = index->owners[record->owner].uid;
    st->st_gid = index->owners[record->owner].gid;
    st->st_size = S_ISDIR(st->st_mode) ? 4096 : (off_t)record->logical_size;
    st->st_blksize = 4096;
    st->st_blocks = S_ISLNK(st->st_mode) ? 0 : (st->st_size / 4096 + (st->st_size % 4096 != 0)) * 8;
    split_time(record->mtime_ns, &st->st_mtim);
    st->st_atim = st->st_mtim;
    st->st_ctim = st->st_mtim;
    return 0;
}
