/*
 * Look-ups in an index in memory, for Python. Each call attaches the index again, so that no state
 * is kept; checking the header takes well under a microsecond.
 */
#pragma once

#include <stdint.h>

#include "../../format/index_format.h"

/* cffi: begin */
/* Checks the header of an index. Returns 0, or -EINVAL with the static name and the file offset of
 * the bad field. */
int fan_core_index_check(const void *base, uint64_t bytes, const char **field, uint64_t *offset);

/* Returns the record id of a relpath in normal form, -ENOENT, or -EIO; -EINVAL for a bad index. */
int64_t fan_core_index_lookup(const void *base, uint64_t bytes, const char *relpath,
                              uint64_t relpath_bytes);

/* Looks up `count` paths, which are in `paths`, each with a NUL behind it. ids: the record of each,
 * or UINT64_MAX if the path is not below `prefix` (without a slash at its end) or is no record. A
 * path may have empty components and ".", but no "..". Links are not followed. Returns how many
 * were found; -EINVAL for a bad index, or if `paths` does not hold `count` paths. */
int64_t fan_core_index_lookup_all(const void *base, uint64_t bytes, const char *paths,
                                  uint64_t paths_bytes, const char *prefix, uint64_t prefix_bytes,
                                  uint64_t *ids, uint64_t count);

/* Writes the relpath of a record to `buffer`. Returns its length, -ERANGE if it is longer than
 * `capacity`, or -EIO. */
int64_t fan_core_index_path(const void *base, uint64_t bytes, uint64_t id, char *buffer,
                            uint64_t capacity);

/* Sets the range of record ids of a directory's children. Returns 0 or -EIO. */
int fan_core_index_children(const void *base, uint64_t bytes, uint64_t id, uint64_t *first,
                            uint64_t *count);

/* Check every record of an index, for verify and extract, which trust all of them. Serving does
 * not need this: it checks each offset when it uses it.
 *
 * Checks types, parents, names and their order, owners, and the references to content, targets and
 * children. Returns 0; -EIO and sets the first bad record and the static name of its bad field; or
 * -EINVAL if the header is not valid. */
int fan_core_check_records(const void *base, uint64_t bytes, uint64_t *record, const char **field);

/* Checks that every record can be found by its path; check the records first. Returns 0; -EIO and
 * sets the first bad record; or -EINVAL. */
int fan_core_check_lookups(const void *base, uint64_t bytes, uint64_t *record);
/* cffi: end */
