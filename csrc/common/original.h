/*
 * The originals of a dataset whose packs are planned (FAN_INDEX_PLANNED): the files in the
 * directory that was listed, or the objects of a bucket. A record's checksum is
 * then the state that the listing noted for the original.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "index.h"

/* Returns the state of a file: a hash of its size and of the times of its last change. Never 0, the
 * state that a listing notes for a file which may have changed without a trace. */
uint64_t fan_file_state(uint64_t size, int64_t mtime_ns, int64_t ctime_ns);

/* Returns the state of a file from the result of lstat or fstat. */
uint64_t fan_stat_state(const struct stat *st);

/* Writes the path of a record's original, which lies in the directory `source`. Returns 0,
 * -ENAMETOOLONG, or -EIO for a damaged index. */
int fan_original_path(const struct fan_index *index, const char *source, uint64_t id,
                      char path[PATH_MAX]);

static inline bool fan_index_is_planned(const struct fan_index *index)
{
    return (index->header->flags & FAN_INDEX_PLANNED) != 0;
}
