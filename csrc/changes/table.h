/*
 * Changing the table of the names segment (format/names_format.h): for whoever may, the daemon
 * while it is closed, else the owner of `changer`, and with `sequence` odd. Nothing here allocates,
 * blocks or makes system calls. Paths are in normal form.
 */
#ifndef FAN_CHANGES_TABLE_H
#define FAN_CHANGES_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "../common/names.h"

struct fan_table_path {
    uint32_t mount;
    const char *text;
    uint32_t bytes;
};

/* What a name stands for. attr: NULL where there is nothing to be seen; ask: it is being written.
 */
struct fan_table_value {
    const struct fan_output_attr *attr;
    const char *target;
    uint32_t target_bytes;
    bool ask;
};

static inline void fan_table_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Nothing that readers take while `sequence` is odd counts. The fence: who takes a word that is
 * stored from here on then sees that `sequence` was odd. */
static inline void fan_table_turn(const struct fan_names *names)
{
    fan_table_store(&names->header->sequence, names->header->sequence + 1);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline size_t fan_table_padded(size_t bytes)
{
    return (bytes + 7) / 8 * 8;
}

struct fan_name *fan_table_at(const struct fan_names *names, uint64_t unit);
uint64_t fan_table_unit(const struct fan_names *names, const void *at);

/* The directory of a path. */
struct fan_table_path fan_table_parent(const struct fan_table_path *path);

/* NULL: there is none. */
struct fan_name *fan_table_find(const struct fan_names *names, const struct fan_table_path *path);

/* Whether one more name has room: 0, or how many units there ought to be in one piece; buckets are
 * fan_table_grow's. */
uint64_t fan_table_lacks(const struct fan_names *names, uint32_t path_bytes, uint32_t target_bytes);

/* Units that were never used. 0: there is no room for them. */
uint64_t fan_table_fresh(const struct fan_names *names, uint64_t units);

/* Moves all names to `count` buckets in fresh units. false: there is no room. */
bool fan_table_grow(const struct fan_names *names, uint64_t count);

/* Sets what a path in a covered directory stands for; it goes when that is nothing. 0; -ENOSPC: the
 * directory is not covered any more. */
int fan_table_put(const struct fan_names *names, struct fan_name *directory,
                  const struct fan_table_path *path, const struct fan_table_value *value);

/* The name of a directory that is covered from now on. NULL: there is no room. */
struct fan_name *fan_table_cover(const struct fan_names *names, const struct fan_table_path *path);

/* A directory is covered no more. */
void fan_table_uncover(const struct fan_names *names, struct fan_name *directory);

/* What is being written at a name is the daemon's alone to publish. */
void fan_table_detach(const struct fan_names *names, const struct fan_name *name);

void fan_table_set_flags(struct fan_name *name, uint32_t flags);

#endif
