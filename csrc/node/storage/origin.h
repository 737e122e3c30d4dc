/*
 * The origin of a dataset whose packs are planned: where the bytes of its records come from. It is
 * a directory (originals.h) or a bucket (objects.h).
 */
#pragma once

#include "../../common/original.h"
#include "mounts.h"
#include "objects.h"
#include "originals.h"

/* Reads the bytes of a request from the record's original. Any thread may call it. Returns 0,
 * -ESTALE (the original is not as it was listed), -EIO, or -errno. */
static inline int fan_origin_read(struct fan_mounts *mounts,
                                  const struct fan_fetch_request *request, void *to)
{
    struct fan_node_mount *mount = &mounts->mounts[request->mount];
    return fan_index_is_of_objects(&mount->index) ? fan_object_read(mounts, request, to)
                                                  : fan_original_read(mount, request, to);
}
