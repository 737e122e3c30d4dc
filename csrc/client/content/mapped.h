/*
 * Which file of ours an address shows: the kernel's own list of mappings tells it, by the names of
 * packs and of copies (mapping.h). Slow; for calls that change mappings.
 */
#ifndef FAN_CLIENT_MAPPED_H
#define FAN_CLIENT_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../job/job.h"

/* offset: where in the file the address is. prot, shared: of the mapping. */
struct fan_mapped {
    struct fan_view *view;
    uint64_t id;
    int64_t offset;
    int prot;
    bool shared;
};

/* true with `found` when an input is mapped at `address`. Neither allocates nor locks. */
bool fan_mapped_at(const void *address, struct fan_mapped *found);

/* For how many bytes from `address` on there is one mapping of the kernel's. 0: none. */
size_t fan_mapped_as_one(const void *address);

#endif
