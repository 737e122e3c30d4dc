/*
 * Is mmap(2) for a file of a mount. If this rank or a neighbour has the file, aligned to pages in a
 * pack, it maps that pack. A large file that is not on this rank it maps by need (map_server.h) or,
 * if there is no map server, where the shared file system has it (in_place.h). Otherwise it maps a
 * copy in a memory file. Inputs never change, so a program sees no difference.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name of the memory files that are mapped, by which fan_mapped_at recognises them. */
#define FAN_MAP_COPY "fanstore-map"

struct fan_file;

/* Returns the address, or -errno (-4095 to -1). */
long fan_mmap(struct fan_file *file, void *at, size_t bytes, int prot, int flags, int64_t offset);

/* Returns whether an input is mapped at `address`. Looks for the names of packs and copies in the
 * kernel's list of mappings. Slow; for calls that change mappings. Neither allocates nor locks. */
bool fan_mapped_at(const void *address);

/* Returns whether mremap(2) would make a mapping of an input larger. The kernel would fill the new
 * part with the bytes that follow in the pack, or with nothing beyond the end of the copy. */
bool fan_mapped_grows(const void *address, size_t old_bytes, size_t bytes);
