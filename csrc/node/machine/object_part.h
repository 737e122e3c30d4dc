/* What the core asks Python to fetch from a bucket (fanstore/node/objects.py). */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* A part of an object to fetch to `to`: `bytes` from `offset` on, of an object with this path, size
 * and state (common/original.h). */
struct fan_object_part {
    const char *path;
    char *to;
    uint64_t offset;
    uint64_t bytes;
    uint64_t size;
    uint64_t state;
    uint32_t mount;
    uint32_t path_bytes;
};

/* Returns 0; -ESTALE: the object has changed since the listing, or is gone; or -errno. */
typedef int fan_fetch_object(const struct fan_object_part *part);
/* cffi: end */
