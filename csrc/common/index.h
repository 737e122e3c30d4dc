/*
 * Reads an index in memory: checks it, looks up paths, and walks its records.
 *
 * The index is immutable and untrusted. fan_index_attach checks the header and every section's
 * bounds, so that the accessors below never leave the mapping; references inside a record are
 * checked when they are used, and a bad one gives -EIO. No function allocates, takes a lock or
 * blocks; all are safe in signal handlers and after fork. The caller verifies checksums (the node
 * daemon does so once, when it stages the index).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "../format/index_format.h"
#include "path_hash.h"

/* The reason why a file was refused: its bad field. `field` is static; `offset` counts from the
 * start of the file. */
struct fan_fault {
    const char *field;
    uint64_t offset;
};

struct fan_index {
    const struct fan_index_header *header;
    const struct fan_record *records;
    const uint32_t *slots;     /* NULL in versions 1 and 2 */
    const uint64_t *old_slots; /* those of versions 1 and 2 */
    const char *names;
    const struct fan_owner *owners;
    const struct fan_link *links;
    const struct fan_pack_info *packs;
    const uint64_t *milestones;        /* NULL in versions 1 and 2 */
    const struct fan_dentry *dentries; /* NULL if the index has slots */
    const uint16_t *pilots;
    const struct fan_part *parts;
    const uint8_t *tags;
    uint64_t record_count;
    uint64_t slot_count;
    uint64_t id_mask; /* of a slot */
    uint64_t tag_mask;
    unsigned id_bits;
    uint64_t names_bytes;
    uint64_t owner_count;
    uint64_t link_count;
    uint64_t pack_count;
    uint64_t dentry_count;
    uint64_t part_count;
};

/* The result of fan_index_child. */
struct fan_child {
    uint64_t id;
    uint64_t hash;
    uint32_t mode;
};

/* Fills `index` from the `bytes` bytes at `base`, which must stay mapped and be aligned to 64
 * bytes. Returns 0, or -EINVAL with the bad field in `fault`. */
int fan_index_attach(struct fan_index *index, const void *base, uint64_t bytes,
                     struct fan_fault *fault);

/* Finds the name of a record. Returns 0, or -EIO if the name lies outside the names section. */
int fan_index_name(const struct fan_index *index, const struct fan_record *record,
                   const char **name, size_t *name_bytes);

/* Finds the child `name` of directory `parent`, whose path hash is `parent_hash`. Returns 0 or
 * -ENOENT. */
int fan_index_child(const struct fan_index *index, uint64_t parent, uint64_t parent_hash,
                    const char *name, size_t name_bytes, struct fan_child *child);

/* Computes the path hash of a record from its chain of parents. Returns 0 or -EIO. */
int fan_index_path_hash(const struct fan_index *index, uint64_t id, uint64_t *hash);

/* Writes the relpath of a record to `buffer`, without a NUL ("" for the root). Returns its length,
 * -ERANGE if it does not fit, or -EIO. */
int64_t fan_index_path(const struct fan_index *index, uint64_t id, char *buffer, size_t capacity);

/* Looks up a relpath in normal form (no empty, "." or ".." component; "" is the root), and follows
 * no links. Returns the record id, -ENOENT, or -EIO. */
int64_t fan_index_lookup(const struct fan_index *index, const char *relpath, size_t bytes);

/* Finds the range of a directory's children. Returns 0, or -EIO if the range leaves the records or
 * loops back. */
int fan_index_children(const struct fan_index *index, uint64_t id, uint64_t *first,
                       uint64_t *count);

/* Finds the target of a symbolic link. Returns 0 or -EIO. */
int fan_index_target(const struct fan_index *index, const struct fan_record *record,
                     const char **target, size_t *target_bytes);

/* Returns the record of the first name of a hard-linked file; `id` if the file has no other. */
uint64_t fan_index_first_name(const struct fan_index *index, uint64_t id);

/* Returns the inode number of a record: its id plus two, or, for a hard link, the number of the
 * first name. */
uint64_t fan_index_inode(const struct fan_index *index, uint64_t id);

/* Fills a struct stat except st_dev. Returns 0 or -EIO. */
int fan_index_stat(const struct fan_index *index, uint64_t id, struct stat *st);

static inline const struct fan_record *fan_index_record(const struct fan_index *index,
                                                        uint64_t id)
{
    return id < index->record_count ? &index->records[id] : NULL;
}

/* Returns the number of low bits of a slot that hold an id plus one; the others hold the lowest
 * bits of the path hash. */
static inline unsigned fan_slot_id_bits(uint64_t record_count)
{
    return 64 - (unsigned)__builtin_clzll(record_count);
}

/* Returns the number of the slot with which the search for a path hash begins. */
static inline uint64_t fan_first_slot(uint64_t hash, uint64_t slot_count)
{
    return (uint64_t)(((unsigned __int128)hash * slot_count) >> 64);
}

static inline uint64_t fan_milestone_count(uint64_t record_count)
{
    return (record_count - 1) / FAN_RECORDS_PER_MILESTONE + 2;
}
