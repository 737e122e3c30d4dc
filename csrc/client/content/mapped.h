/*
 * Whether an address shows a file of ours: the kernel's own list of mappings tells it, by the names
 * of packs and of copies (mapping.h). Slow; for calls that change mappings.
 */
#ifndef FAN_CLIENT_MAPPED_H
#define FAN_CLIENT_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/* Whether an input is mapped at `address`. Neither allocates nor locks. */
bool fan_mapped_at(const void *address);

/* Whether mremap(2) is to make a mapping of an input larger: the kernel would let it go on with
 * what follows in the pack, or end with the copy. */
bool fan_mapped_grows(const void *address, size_t old_bytes, size_t bytes);

#endif
