/*
 * The origin of a dataset whose packs are planned: where the bytes of its records come from. It is
 * a directory (originals.h) or a bucket (objects.h).
 */
#pragma once

#include "../../common/original.h"
#include "mounts.h"
#include "objects.h"
#include "originals.h"

/* How many reads of one file are worth beginning at once: a server answers them side by side. */
enum { FAN_ORIGIN_READS_MAX = 4 };

/* A read of the bytes of a request, which must stay as it is meanwhile. object: NULL for a
 * directory. */
struct fan_origin_read {
    const struct fan_fetch_request *request;
    void *to;
    struct fan_object_read *object;
};

/* Begins a read; it must be ended. Only an object comes meanwhile. Any thread may call these. */
static inline void fan_origin_begin(struct fan_mounts *mounts, struct fan_origin_read *read)
{
    const struct fan_node_mount *mount = &mounts->mounts[read->request->mount];
    read->object = NULL;
    if (fan_index_is_of_objects(&mount->index))
        read->object = fan_object_ask(&mounts->objects, read->request, read->to);
}

/* Ends a read. Returns 0, -ESTALE (the original is not as it was listed), -EIO, or -errno. */
static inline int fan_origin_end(struct fan_mounts *mounts, const struct fan_origin_read *read)
{
    struct fan_node_mount *mount = &mounts->mounts[read->request->mount];
    return fan_index_is_of_objects(&mount->index)
               ? fan_object_wait(&mounts->objects, read->object)
               : fan_original_read(mount, read->request, read->to);
}
