#include "tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../csrc/common/dentry.h"
#include "../../csrc/format/pack_format.h"
#include "old_lookups.h"

enum { BLOCK_BYTES = 4096 };

/* Of dentries, pilots, parts and tags. */
static const uint32_t old_entry_bytes[] = {sizeof(struct fan_dentry), sizeof(uint16_t),
                                           sizeof(struct fan_part), 1};

struct cursor {
    uint8_t *base;
    size_t used;
    size_t capacity;
    struct fan_index_header *header;
};

/* Appends a section of `count` entries. Returns its start, or NULL if it does not fit. */
static void *section(struct cursor *cursor, unsigned kind, uint64_t count, uint32_t entry_bytes)
{
    size_t start = (cursor->used + FAN_SECTION_ALIGN_BYTES - 1) & ~(size_t)(FAN_SECTION_ALIGN_BYTES - 1);
    size_t bytes = count * entry_bytes;
    if (bytes > cursor->capacity || start > cursor->capacity - bytes)
        return NULL;
    cursor->header->sections[kind] = (struct fan_section){
        .offset = start, .count = count, .kind = kind, .entry_bytes = entry_bytes};
    cursor->used = start + bytes;
    return cursor->base + start;
}

static void name_record(struct fan_record *record, char *names, const char *prefix, unsigned number)
{
    static const unsigned width = 16;
    uint64_t at = (uint64_t)number * width;
    int bytes = snprintf(names + at, width, "%s%u", prefix, number);
    record->name_offset = at;
    record->name_bytes = (uint8_t)bytes;
}

static void make_file(struct fan_record *record, unsigned id)
{
    record->mode = S_IFREG | 0644;
    record->nlink = 1;
    record->mtime_ns = 1500000000123456789 + id;
    record->logical_size = 100 * id;
    record->stored_size = record->logical_size;
    record->offset = FAN_PACK_HEADER_BYTES + 8192 * (uint64_t)id;
    if (id % 3 == 0) {
        record->codec = FAN_CODEC_LZ4;
        record->stored_size = record->logical_size / 2 + 64;
    }
    if (id % 5 == 0) {
        record->mode = S_IFLNK | 0777;
        record->offset = 0;
        record->logical_size = 4;
    }
}

static void make_tree(struct tree_shape shape, struct fan_record *records, char *names)
{
    unsigned id = 1 + shape.directories;
    records[0] = (struct fan_record){
        .mode = S_IFDIR | 0755, .nlink = 2, .offset = 1, .stored_size = shape.directories};
    for (unsigned d = 1; d <= shape.directories; d++) {
        records[d] = (struct fan_record){.mode = S_IFDIR | 0700, .nlink = 2, .offset = id,
                                         .stored_size = shape.files_each};
        name_record(&records[d], names, "dir", d);
        for (unsigned f = 0; f < shape.files_each; f++, id++) {
            records[id] = (struct fan_record){.parent = d};
            make_file(&records[id], id);
            name_record(&records[id], names, "file", id);
        }
    }
}

static uint64_t make_links(struct fan_record *records, uint64_t count, struct fan_link *links)
{
    uint64_t made = 0;
    for (uint64_t id = 8; id < count; id++) {
        if (id % 7 != 0 || !S_ISREG(records[id].mode))
            continue;
        records[id].nlink = 2;
        links[made++] = (struct fan_link){.record = id, .first = id - 1};
    }
    return made;
}

static bool make_dentries(struct cursor *cursor, const struct fan_named *named)
{
    uint64_t count = named->record_count - 1, parts = fan_part_count(count);
    struct old_dentries to = {
        section(cursor, FAN_SECTION_DENTRIES, count, sizeof(struct fan_dentry)),
        section(cursor, FAN_SECTION_PILOTS, fan_first_pilot(count, parts), sizeof(uint16_t)),
        section(cursor, FAN_SECTION_PARTS, parts + 1, sizeof(struct fan_part)),
        section(cursor, FAN_SECTION_TAGS, count, 1)};
    section(cursor, FAN_SECTION_SLOTS, 0, sizeof(uint64_t));
    return to.dentries && to.pilots && to.parts && to.tags && old_dentries(named, &to);
}

/* Fills the sections for looking up paths. */
static bool make_lookups(struct cursor *cursor, unsigned version, const struct fan_named *named)
{
    uint64_t count = named->record_count, slot_count = count + count / 4 + 1;
    uint32_t *max_probe = &cursor->header->max_probe;
    if (version == 2)
        return make_dentries(cursor, named);
    void *slots = section(cursor, FAN_SECTION_SLOTS, slot_count, version == 1 ? 8 : 4);
    if (slots == NULL)
        return false;
    if (version == 1)
        return old_slots(named, slots, slot_count, max_probe);
    for (unsigned kind = FAN_SECTION_DENTRIES; kind < FAN_SECTION_MILESTONES; kind++)
        section(cursor, kind, 0, old_entry_bytes[kind - FAN_SECTION_DENTRIES]);
    uint64_t *milestones =
        section(cursor, FAN_SECTION_MILESTONES, fan_milestone_count(count), sizeof(uint64_t));
    if (milestones == NULL)
        return false;
    fan_fill_milestones(named, milestones);
    return fan_fill_slots(named, slots, slot_count, max_probe) == 0;
}

size_t tree_fill(struct tree_shape shape, uint8_t *buffer, size_t capacity)
{
    uint64_t count = 1 + (uint64_t)shape.directories * (1 + shape.files_each);
    unsigned version = shape.version != 0 ? shape.version : FAN_INDEX_VERSION;
    struct fan_index_header *header = (void *)buffer;
    struct cursor cursor = {buffer, FAN_INDEX_HEADER_BYTES, capacity, header};
    if (capacity < FAN_INDEX_HEADER_BYTES)
        return 0;
    memset(buffer, 0, capacity);
    struct fan_record *records = section(&cursor, FAN_SECTION_RECORDS, count, FAN_RECORD_BYTES);
    char *names = section(&cursor, FAN_SECTION_NAMES, count * 16, 1);
    struct fan_owner *owners = section(&cursor, FAN_SECTION_OWNERS, 1, sizeof(*owners));
    struct fan_link *links = section(&cursor, FAN_SECTION_LINKS, count / 7, sizeof(*links));
    struct fan_pack_info *packs = section(&cursor, FAN_SECTION_PACKS, 1, sizeof(*packs));
    if (!records || !names || !owners || !links || !packs)
        return 0;
    make_tree(shape, records, names);
    header->sections[FAN_SECTION_LINKS].count = make_links(records, count, links);
    *packs = (struct fan_pack_info){.file_bytes = TREE_PACK_BYTES, .entry_count = count};
    struct fan_named named = {records, names, count, count * 16, NULL};
    named.path_hashes = malloc(count * sizeof(*named.path_hashes));
    bool made = named.path_hashes != NULL && fan_hash_paths(&named) == 0 &&
                make_lookups(&cursor, version, &named);
    free(named.path_hashes);
    if (!made)
        return 0;
    memcpy(header->magic, FAN_INDEX_MAGIC, sizeof(header->magic));
    header->version = version;
    header->layout_id = FAN_INDEX_LAYOUT_ID;
    header->file_bytes = cursor.used;
    header->record_count = count;
    header->pack_count = 1;
    header->block_bytes = BLOCK_BYTES;
    header->section_count = version == 1   ? FAN_SECTION_DENTRIES
                            : version == 2 ? FAN_SECTION_MILESTONES
                                           : FAN_SECTION_COUNT;
    return cursor.used;
}
