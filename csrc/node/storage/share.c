#include "share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../../format/cache_format.h"
#include "../../format/pack_format.h"
#include "marks.h"
#include "mounts.h"
#include "../machine/shared.h"

/* Returns a copy, or NULL if there is no memory. */
static void *copy(const void *from, size_t bytes)
{
    void *to = malloc(bytes);
    return to != NULL ? memcpy(to, from, bytes) : NULL;
}

int fan_share_init(struct fan_node_mount *mount, const uint64_t *bounds,
                   const uint64_t *memory_bounds)
{
    struct fan_share *share = &mount->share;
    uint64_t start = 0;
    size_t bounds_bytes = ((size_t)share->world_size + 1) * sizeof(*bounds);
    int rc = fan_partial_init(&share->partial, &mount->index, mount->staged_dir);
    share->bounds = copy(bounds, bounds_bytes);
    share->memory_bounds = copy(memory_bounds, bounds_bytes);
    share->starts = calloc((size_t)mount->pack_count + 1, sizeof(*share->starts));
    share->spoiled = calloc((size_t)mount->pack_count + 1, sizeof(*share->spoiled));
    if (share->bounds == NULL || share->memory_bounds == NULL || share->starts == NULL ||
        share->spoiled == NULL)
        rc = -ENOMEM;
    if (rc != 0) {
        fan_share_fini(share);
        return rc;
    }
    for (uint32_t pack = 0; pack < mount->pack_count; pack++) {
        share->starts[pack] = start;
        if (fan_acquire32(&mount->places[pack].state) == FAN_PLACE_PARTIAL)
            start += mount->index.packs[pack].file_bytes;
    }
    return 0;
}

void fan_share_fini(struct fan_share *share)
{
    fan_partial_fini(&share->partial);
    free(share->spoiled);
    free(share->starts);
    free(share->bounds);
    free(share->memory_bounds);
    share->spoiled = NULL;
    share->starts = share->bounds = share->memory_bounds = NULL;
}

static bool is_partial(const struct fan_node_mount *mount, uint32_t pack)
{
    return mount->share.starts != NULL &&
           fan_acquire32(&mount->places[pack].state) == FAN_PLACE_PARTIAL;
}

/* Returns the rank between whose bounds a position lies. */
static uint32_t rank_between(const struct fan_share *share, const uint64_t *bounds, uint64_t at)
{
    uint32_t low = 0, high = share->world_size; /* the last bound that is at or before it */
    if (at < bounds[0])
        return FAN_NO_RANK;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bounds[middle + 1] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low < share->world_size ? low : FAN_NO_RANK;
}

static uint64_t position_of(const struct fan_node_mount *mount,
                            const struct fan_fetch_request *request)
{
    return mount->share.starts[request->pack] + fan_mount_record(mount, request->record)->offset;
}

uint32_t fan_share_rank(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    const struct fan_share *share = &mount->share;
    if (!is_partial(mount, request->pack) ||
        fan_mount_record(mount, request->record)->stored_size > share->largest_bytes)
        return FAN_NO_RANK;
    return rank_between(share, share->bounds, position_of(mount, request));
}

uint32_t fan_share_memory_rank(const struct fan_node_mount *mount,
                               const struct fan_fetch_request *request)
{
    if (!is_partial(mount, request->pack) || fan_share_rank(mount, request) != FAN_NO_RANK)
        return FAN_NO_RANK;
    return rank_between(&mount->share, mount->share.memory_bounds, position_of(mount, request));
}

bool fan_share_is_in_memory(const struct fan_node_mount *mount,
                            const struct fan_fetch_request *request)
{
    return fan_share_memory_rank(mount, request) == mount->share.own_rank;
}

uint64_t fan_share_memory_granules(const struct fan_mounts *mounts, uint32_t number)
{
    const struct fan_node_mount *mount = &mounts->mounts[number];
    const uint64_t *bounds = mount->share.memory_bounds;
    uint64_t granules = 0;
    if (bounds == NULL || bounds[mount->share.own_rank] == bounds[mount->share.own_rank + 1])
        return 0;
    for (uint64_t id = 0; id < mount->index.record_count; id++) {
        struct fan_fetch_request request = fan_record_request(mount, number, id);
        if (fan_mounts_has_content(mounts, number, id) && fan_share_is_in_memory(mount, &request))
            granules += fan_cache_granules(fan_mount_record(mount, id)->stored_size);
    }
    return granules;
}

/* Returns whether the record of a request is in this rank's share. */
static bool is_own(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    return fan_share_rank(mount, request) == mount->share.own_rank;
}

struct fan_fetch_request fan_record_request(const struct fan_node_mount *mount, uint32_t number,
                                            uint64_t id)
{
    const struct fan_record *record = fan_mount_record(mount, id);
    return (struct fan_fetch_request){.mount = number,
                                      .pack = record->pack,
                                      .record = id,
                                      .offset = record->offset,
                                      .bytes = (uint32_t)record->stored_size};
}

bool fan_share_has(const struct fan_node_mount *mount, const struct fan_fetch_request *request)
{
    return is_partial(mount, request->pack) &&
           fan_partial_has(&mount->share.partial, request->record);
}

static bool is_missing(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    const struct fan_share *share = &mount->share;
    if (fan_mounts_is_damaged(mounts, request->mount, request->record))
        return false;
    if (fan_mount_is_unchecked(mount, request->record))
        return true;
    return is_own(mount, request) && fan_relaxed32(&share->full) == 0 &&
           fan_relaxed32(&share->spoiled[request->pack]) == 0 && !fan_share_has(mount, request);
}

/* Returns how much of the disk a copy takes, with the gap before it. */
static uint64_t copy_cost(const struct fan_fetch_request *request)
{
    return request->bytes + FAN_MAP_ALIGN_BYTES;
}

bool fan_share_may_copy(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    const struct fan_share *share = &mount->share;
    return is_partial(mount, request->pack) && copy_cost(request) <= share->copy_bytes &&
           !fan_share_has(mount, request) && !is_own(mount, request) &&
           !fan_mount_is_at_neighbour(mount, request->record) && fan_relaxed32(&share->full) == 0 &&
           fan_relaxed32(&share->spoiled[request->pack]) == 0 &&
           (mount->replicas[request->pack].count > 0 ||
            fan_share_rank(mount, request) != FAN_NO_RANK);
}

void fan_share_note_copy(struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    mounts->mounts[request->mount].share.copy_bytes -= copy_cost(request);
}

bool fan_share_is_missing(const struct fan_mounts *mounts, uint32_t mount, uint64_t record)
{
    struct fan_fetch_request request = fan_record_request(&mounts->mounts[mount], mount, record);
    return is_missing(mounts, &request);
}

bool fan_share_wants(const struct fan_mounts *mounts, const struct fan_fetch_request *request)
{
    const struct fan_node_mount *mount = &mounts->mounts[request->mount];
    return fan_mount_record(mount, request->record)->stored_size <= FAN_FILL_MAX_BYTES &&
           is_missing(mounts, request);
}
