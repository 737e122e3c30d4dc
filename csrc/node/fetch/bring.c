#include "bring.h"

#include "../state/state.h"
#include "../cache/unread.h"
#include "../storage/marks.h"

/* AHEAD_MAX, AHEAD_SHARE: the most blocks on their way that no client wants yet, as a number and as
 * a part of the room. UNREAD_SHARE: the part of the cache that unread blocks of hints may fill. */
enum { AHEAD_MAX = 16, AHEAD_SHARE = 4, UNREAD_SHARE = 2 };

/* Returns how many fetches of so many bytes may be on their way. */
static uint32_t under_way_most(const struct fan_node *node, uint32_t bytes)
{
    uint32_t share = fan_blockcache_passing(&node->cache) / fan_granules_for(bytes) / AHEAD_SHARE;
    return share < AHEAD_MAX ? share : AHEAD_MAX;
}

/* Returns whether `bytes` more, with the blocks on their way, fit into the part of the cache that
 * hints may fill. */
static bool has_share(struct fan_node *node, uint32_t bytes)
{
    uint32_t under_way = node->flights.counts[FAN_AHEAD] * FAN_BLOCK_GRANULES;
    uint32_t taken = fan_unread_granules(&node->cache) + under_way;
    return taken + fan_granules_for(bytes) <= node->segment.entry_count / UNREAD_SHARE;
}

static bool is_here(const struct fan_node *node, uint64_t file, uint64_t block, uint32_t granule)
{
    return fan_blockcache_find_granule(&node->cache, file, block, granule) != FAN_NO_FRAME ||
           fan_flight_find_granule(&node->flights, file, block, granule) != NULL;
}

bool fan_bring_missing(const struct fan_node *node, uint64_t file, uint64_t block,
                       struct fan_piece *part)
{
    uint32_t from = part->from, end = part->from + part->count;
    while (from < end && is_here(node, file, block, from))
        from++;
    part->from = from;
    while (from < end && !is_here(node, file, block, from))
        from++;
    part->count = from - part->from;
    return part->count > 0;
}

enum fan_bring fan_bring_check(struct fan_node *node, uint64_t file, uint64_t block,
                               struct fan_piece *part, enum fan_bring_for whom,
                               struct fan_fetch_request *request)
{
    if (fan_blockcache_find(&node->cache, file, block) != FAN_NO_FRAME ||
        fan_flight_find(&node->flights, file, block) != NULL ||
        (part->count > 0 && !fan_bring_missing(node, file, block, part)))
        return FAN_BRING_THERE;
    if (whom == FAN_FOR_RUN && (fan_blockcache_may_have_pieces(&node->cache, file, block) ||
                                fan_flight_find_any(&node->flights, file, block) != NULL))
        return FAN_BRING_THERE; /* pieces of it: the reader asks for the others */
    if (fan_mounts_request(&node->mounts, file, block, request) != 0 ||
        fan_mounts_narrow(&node->mounts, request, part) != 0 ||
        fan_mounts_is_damaged(&node->mounts, request->mount, request->record))
        return FAN_BRING_NOWHERE;
    if (node->flights.counts[FAN_AHEAD] >= under_way_most(node, request->bytes) ||
        node->flights.grounded.count > 0)
        return FAN_BRING_LATER;
    if (whom == FAN_FOR_HINT && !has_share(node, request->bytes))
        return FAN_BRING_NO_ROOM;
    request->urgency = FAN_AHEAD;
    return FAN_BRING;
}
