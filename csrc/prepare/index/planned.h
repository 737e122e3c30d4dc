/*
 * An index whose packs are planned: the places that the files of a directory would have in packs,
 * and the state in which the listing found each of them (common/original.h).
 */
#pragma once

#include <stdint.h>

#include "../source/entries.h"

/* cffi: begin */
/* Fills the offsets of `count` uncompressed files, the first of which lies behind `end` in a pack
 * and each other behind the one before; places[count] is the end of the padding after the last. */
void fan_places_after(uint64_t end, const uint64_t *sizes, uint64_t count, uint64_t *places);

/* Fills the place of each regular file in its pack, packs[i], and the state of each file and
 * directory. first[i]: the first name of the same file, which has the place. now_ns: the time when
 * the listing began; a file that changed just before may change again without a new time, so its
 * state is 0, which no file has. ends: for each pack, where its content starts; becomes its size.
 */
void fan_planned_places(const struct fan_scan_entry *entries, uint64_t count, const int64_t *packs,
                        const int64_t *first, int64_t now_ns, uint64_t *offsets, uint64_t *states,
                        uint64_t *ends);

/* Compares originals in the directory `source` with a planned index, several at once. Returns the
 * number of the first of `records` that differs, or `count`; -EINVAL for a bad index. */
int64_t fan_planned_differs(const void *base, uint64_t bytes, const char *source,
                            const uint64_t *records, uint64_t count);
/* cffi: end */
