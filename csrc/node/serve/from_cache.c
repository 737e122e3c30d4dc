#include "requests.h"

#include <stdlib.h>

#include "../fetch/fetch.h"
#include "../state/state.h"
#include "../wants/replies.h"

/* Returns the block that contains the bytes of a request; UINT64_MAX if the request is not for one
 * block. */
static uint64_t block_of(const struct fan_node *node, const struct fan_fetch_request *request)
{
    struct fan_fetch_request own;
    uint64_t file = fan_cache_file(request->mount, request->record);
    uint64_t start =
        fan_mount_record(&node->mounts.mounts[request->mount], request->record)->offset;
    uint64_t block = (request->offset - start) / FAN_CACHE_BLOCK_BYTES;
    bool whole = request->offset >= start &&
                 fan_mounts_request(&node->mounts, file, block, &own) == 0 &&
                 own.offset == request->offset && own.bytes == request->bytes;
    return whole ? block : UINT64_MAX;
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
    uint64_t block = keeps ? block_of(node, request) : UINT64_MAX;
    uint64_t file = fan_cache_file(request->mount, request->record);
    if (block == UINT64_MAX)
        return false;
    uint32_t id = fan_blockcache_find(&node->cache, file, block);
    if (id != FAN_NO_FRAME) {
        fan_reply_from_frame(&node->replies, rank, request, id);
        return true;
    }
    struct fan_flight *flight = fan_fetch_for_rank(node, file, block, request->urgency, now_ns);
    return flight != NULL && ask(flight, rank, request);
}
