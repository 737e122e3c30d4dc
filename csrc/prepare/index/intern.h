/* Finds things that several entries have in common, so that they are stored once: names, and the
 * content of hard-linked files. */
#pragma once

#include <stdint.h>

#include "../source/entries.h"

/* cffi: begin */
/* The runs of bytes of a scan: the names of all `count` entries, then the targets of the entries
 * `links`. */
struct fan_runs {
    const struct fan_scan_entry *entries;
    const char *names;
    const uint64_t *links;
    uint64_t count;
    uint64_t link_count;
};

/* Plans a section that holds each distinct run once, in the order of first occurrence: sets
 * places[i] to the offset of run i in it. slots_max: the most slots of 8 bytes that the hash table
 * for this may have, a power of two. Returns the section's size in bytes, or -errno. */
int64_t fan_intern(const struct fan_runs *runs, uint64_t slots_max, uint64_t *places);

/* Writes the section. */
void fan_intern_copy(const struct fan_runs *runs, const uint64_t *places, char *section);

/* Fills first[i] with the first entry that is the same regular file as entry i, which may be i
 * itself. Returns 0 or -errno. */
int fan_same_files(const struct fan_scan_entry *entries, uint64_t count, uint64_t slots_max,
                   uint64_t *first);
/* cffi: end */
