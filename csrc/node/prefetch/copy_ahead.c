#include "copy_ahead.h"

#include "../fetch/fetch.h"
#include "../state/state.h"
#include "../storage/marks.h"

enum { LOOKS = 1024 }; /* at so many records in one turn */

/* Returns whether the node has nothing to fetch or to write for anybody. */
static bool is_idle(const struct fan_node *node)
{
    return node->flights.counts[FAN_DEMAND] == 0 && node->flights.counts[FAN_AHEAD] == 0 &&
           node->flights.grounded.count == 0 && node->copies_writing == 0 &&
           fan_share_fill_is_done(&node->share_fill);
}

/* Fetches the next record of a mount that may be copied. Returns whether it found one, or has
 * records left to look at. */
static bool advance(struct fan_node *node, uint32_t number, uint64_t now_ns)
{
    struct fan_node_mount *mount = &node->mounts.mounts[number];
    uint64_t *next = &mount->share.copy_next;
    for (unsigned looked = 0; *next < mount->index.record_count; looked++) {
        if (looked == LOOKS)
            return true;
        uint64_t id = (*next)++;
        struct fan_fetch_request request = fan_record_request(mount, number, id);
        if (!fan_mounts_has_content(&node->mounts, number, id) ||
            request.bytes > FAN_CACHE_BLOCK_BYTES ||
            fan_mounts_is_damaged(&node->mounts, number, id) ||
            !fan_share_may_copy(&node->mounts, &request))
            continue;
        if (fan_fetch_ahead(node, fan_cache_file(number, id), 0, FAN_WHOLE_BLOCK, FAN_FOR_RUN,
                            now_ns) == FAN_BRING)
            return true;
    }
    return false;
}

bool fan_copy_ahead_advance(struct fan_node *node, uint64_t now_ns)
{
    for (uint32_t mount = 0; mount < node->mounts.count; mount++) {
        if (node->mounts.mounts[mount].share.copy_bytes == 0)
            continue;
        if (!is_idle(node) || advance(node, mount, now_ns))
            return is_idle(node);
    }
    return false;
}
