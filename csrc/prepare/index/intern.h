/* Keeping once a thing that several entries have: names in the index, and hard-linked files. */
#ifndef FAN_PREPARE_INTERN_H
#define FAN_PREPARE_INTERN_H

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

/* places[i]: where run i lies in a section that has equal runs once, in the order in which they
 * first come. slots_max: of a table with 8 bytes each, a power of two. Returns the bytes of
 * the section, or -errno. */
int64_t fan_intern(const struct fan_runs *runs, uint64_t slots_max, uint64_t *places);

/* Writes that section. */
void fan_intern_copy(const struct fan_runs *runs, const uint64_t *places, char *section);

/* first[i]: the first entry that is the same regular file as entry i, i itself where there is but
 * one. 0 or -errno. */
int fan_same_files(const struct fan_scan_entry *entries, uint64_t count, uint64_t slots_max,
                   uint64_t *first);
/* cffi: end */

#endif
