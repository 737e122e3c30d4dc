#include "requests.h"

#include <stdlib.h>

#include "../fetch/fetch.h"
#include "../state/state.h"
#include "../wants/replies.h"

/* Returns the block that contains the bytes of a request, and sets which part of it they are;
 * UINT64_MAX if the request is not for such a part. */
static uint64_t block_of(const struct fan_node *node, const struct fan_fetch_request *request,
                         struct fan_piece *part)
{
    struct fan_fetch_request own;
    uint64_t file = fan_cache_file(request->mount, request->record);
    uint64_t start =
        fan_mount_record(&node->mounts.mounts[request->mount], request->record)->offset;
    uint64_t block = (request->offset - start) / FAN_CACHE_BLOCK_BYTES;
    *part = (struct fan_piece){
        (uint32_t)((request->offset - start) % FAN_CACHE_BLOCK_BYTES / FAN_CACHE_GRANULE_BYTES),
        (uint32_t)fan_cache_granules(request->bytes)};
    bool is_part = request->offset >= start &&
                   fan_mounts_request(&node->mounts, file, block, &own) == 0 &&
                   fan_mounts_narrow(&node->mounts, &own, part) == 0 &&
                   own.offset == request->offset && own.bytes == request->bytes;
    return is_part ? block : UINT64_MAX;
}

/* Returns a frame that has all of a part of a block, and sets the place in the pack of its first
 * byte; FAN_NO_FRAME if there is none. */
static uint32_t find_part(const struct fan_node *node, uint64_t file, uint64_t block,
                          struct fan_piece part, uint64_t *start)
{
    struct fan_fetch_request whole;
    uint32_t id = part.count == 0
                      ? fan_blockcache_find(&node->cache, file, block)
                      : fan_blockcache_find_granule(&node->cache, file, block, part.from);
    if (id == FAN_NO_FRAME || fan_mounts_request(&node->mounts, file, block, &whole) != 0)
        return FAN_NO_FRAME;
    const struct fan_frame *frame = &node->cache.frames[id];
    *start = whole.offset + (uint64_t)frame->from * FAN_CACHE_GRANULE_BYTES;
    bool all = part.from + part.count <= frame->from + fan_granules_for(frame->bytes);
    return all ? id : FAN_NO_FRAME;
}

/* Makes a request of another rank wait for a flight. */
static bool ask(struct fan_flight *flight, uint32_t rank, const struct fan_fetch_request *request)
{
    struct fan_asked *asked = malloc(sizeof(*asked));
    if (asked == NULL)
        return false;
    *asked = (struct fan_asked){.next = flight->asked, .request = *request, .rank = rank};
    flight->asked = asked;
    return true;
}

bool fan_request_answer_from_cache(struct fan_node *node, uint32_t rank,
                                   const struct fan_fetch_request *request, uint64_t now_ns)
{
    bool keeps = fan_share_is_in_memory(&node->mounts.mounts[request->mount], request);
    struct fan_piece part;
    uint64_t start, block = keeps ? block_of(node, request, &part) : UINT64_MAX;
    uint64_t file = fan_cache_file(request->mount, request->record);
    if (block == UINT64_MAX)
        return false;
    uint32_t id = find_part(node, file, block, part, &start);
    if (id != FAN_NO_FRAME) {
        fan_reply_from_frame(&node->replies, rank, request, id, start);
        return true;
    }
    struct fan_flight *flight =
        fan_fetch_for_rank(node, file, block, part, request->urgency, now_ns);
    return flight != NULL && ask(flight, rank, request);
}
