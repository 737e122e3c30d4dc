/*
 * The functions of node.h with which `fanstore warmup` fetches files and waits for them.
 */
#include "fetch/bring.h"
#include "node.h"
#include "state/state.h"
#include "storage/staged.h"

int fan_node_fill_first(struct fan_node *node, uint32_t mount, const uint64_t *records,
                        uint64_t count)
{
    fan_node_enter(node);
    int number = fan_share_fill_add(&node->share_fill, mount, records, count, FAN_DEMAND);
    fan_node_leave(node);
    fan_node_ring(node);
    return number;
}

int fan_node_is_filling(struct fan_node *node, uint32_t number)
{
    fan_node_enter(node);
    bool goes_on = fan_share_fill_goes_on(&node->share_fill, number);
    fan_node_leave(node);
    return goes_on;
}

/* Fetches a block that is not on this node, and that its disk is not to keep. Only the thread may
 * ask other ranks. */
static enum fan_reach bring(struct fan_node *node, uint64_t file, uint64_t block)
{
    struct fan_fetch_request request;
    struct fan_piece whole = FAN_WHOLE_BLOCK;
    const struct fan_hinted hinted = {file, block, block + 1};
    switch (fan_bring_check(node, file, block, &whole, FAN_FOR_HINT, &request)) {
    case FAN_BRING_THERE:
        return fan_blockcache_find(&node->cache, file, block) != FAN_NO_FRAME ? FAN_REACH_CACHED
                                                                              : FAN_REACH_COMING;
    case FAN_BRING_NO_ROOM:
        return FAN_REACH_NO_ROOM;
    case FAN_BRING_NOWHERE:
        return FAN_REACH_NOWHERE;
    default:
        if (fan_hints_have(&node->hints, file, block))
            return FAN_REACH_COMING;
        return fan_hints_enter(&node->hints, &hinted) ? FAN_REACH_BEGUN : FAN_REACH_LATER;
    }
}

static enum fan_reach reach(struct fan_node *node, uint32_t mount, uint64_t record, uint64_t block)
{
    struct fan_fetch_request request;
    uint64_t file = fan_cache_file(mount, record);
    if (!fan_mounts_has_content(&node->mounts, mount, record) ||
        fan_mounts_request(&node->mounts, file, block, &request) != 0)
        return FAN_REACH_NOWHERE;
    if (fan_staged_admit(&node->mounts, &request) == 0)
        return FAN_REACH_DISK;
    if (fan_share_is_missing(&node->mounts, mount, record))
        return FAN_REACH_TO_KEEP;
    return bring(node, file, block);
}

void fan_node_reach(struct fan_node *node, uint32_t mount, const uint64_t *records,
                    const uint64_t *blocks, uint64_t count, uint32_t *reached)
{
    fan_node_enter(node);
    for (uint64_t i = 0; i < count; i++)
        reached[i] = reach(node, mount, records[i], blocks[i]);
    fan_node_leave(node);
    fan_node_ring(node);
}
