/*
 * Lists a directory's entries by position: ".", "..", the inputs from the index, then the outputs.
 * The outputs are listed once, at the beginning, or not at all if none was ever made.
 */
#pragma once

#include "../job/ask.h"
#include "../job/job.h"

/* own, parent: inode numbers. cursor: the byte where the output number `cursor_at` begins. */
struct fan_entries {
    struct fan_dataset *dataset;
    uint64_t own, parent;
    uint64_t first, count;
    struct fan_output_listing outputs;
    uint64_t cursor_at;
    size_t cursor;
};

/* One entry. name: not terminated. type: DT_REG and so on. */
struct fan_entry {
    const char *name;
    size_t name_bytes;
    uint64_t inode;
    unsigned char type;
};

/* Begins the entries of a directory record. Returns 0, and then the caller must end them, or
 * -errno. */
int fan_entries_of_input(struct fan_entries *entries, struct fan_view *view,
                         struct fan_dataset *dataset, uint64_t id);

/* Like fan_entries_of_input, for a directory of outputs, by its path in the mount in normal form.
 * own: the directory's inode number, which the caller knows from resolving the path. */
int fan_entries_of_output(struct fan_entries *entries, struct fan_view *view, const char *path,
                          uint64_t own);

/* Writes the directory entry at `position` to `entry`. Returns 0, -ENOENT after the last entry, or
 * -EIO if the index or the listing of outputs is damaged. */
int fan_entries_at(struct fan_entries *entries, uint64_t position, struct fan_entry *entry);

void fan_entries_end(struct fan_entries *entries);
