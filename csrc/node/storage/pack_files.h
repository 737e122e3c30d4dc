/*
 * Opens and maps the files of datasets.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

/* Opens a file. Returns a descriptor, or -errno. */
int fan_open_file(const char *path, int flags);

/* Maps a whole file of `*bytes` (0: of any size) and closes it. Returns 0 or -errno; a negative fd
 * is returned unchanged. */
int fan_map_file(int fd, int protection, uint64_t *bytes, char **base);

/* Writes the path of a pack in a folder to `path`. Returns 0 or -ENAMETOOLONG. */
int fan_pack_path(const char *dir, uint32_t pack, char path[PATH_MAX]);
