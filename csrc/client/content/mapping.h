/*
 * mmap(2) of a file of the mount: pages of the pack itself where the file lies page by page in it,
 * else of a copy in a memory file (inputs never change, so the two cannot be told apart).
 */
#ifndef FAN_CLIENT_MAPPING_H
#define FAN_CLIENT_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The name of memory files, by which fan_mapped_at recognises them. */
#define FAN_MAP_COPY "fanstore-map"

struct fan_file;

/* The address, or a value from -4095 to -1. */
long fan_mmap(struct fan_file *file, void *at, size_t bytes, int prot, int flags, int64_t offset);

/* Whether this process, or one that it was forked from since its program began, made any. */
bool fan_mmap_was_made(void);

/* Whether an input is mapped at `address`: the kernel's own list of mappings tells it, by the names
 * of packs and of copies. Slow; for calls that change mappings. Neither allocates nor locks. */
bool fan_mapped_at(const void *address);

/* Whether mremap(2) is to make a mapping of an input larger: the kernel would let it go on with
 * what follows in the pack, or end with the copy. */
bool fan_mapped_grows(const void *address, size_t old_bytes, size_t bytes);

#endif
