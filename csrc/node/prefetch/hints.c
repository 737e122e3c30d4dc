#include "prefetch.h"

#include "disk_ahead.h"
#include "../fetch/fetch.h"
#include "../state/state.h"
#include "../machine/shared.h"

/* The most blocks that are looked at in one turn of the thread. */
enum { TURN_BLOCKS = 64 };

static void drop(struct fan_node *node)
{
    fan_add64(&node->stats.hints_dropped, 1);
}

/* Takes a hint from its slot, which the client may then use again. */
static bool take(struct fan_node *node, struct fan_hint *hint)
{
    if (fan_acquire32(&hint->state) != FAN_HINT_GIVEN)
        return false;
    uint64_t first = fan_relaxed64(&hint->block), count = fan_relaxed64(&hint->count);
    if (!fan_hints_enter(&node->hints,
                         &(struct fan_hinted){fan_relaxed64(&hint->file), first, first + count}))
        drop(node);
    fan_release32(&hint->state, FAN_HINT_FREE);
    return true;
}

static bool take_all(struct fan_node *node, struct fan_session *session)
{
    bool any = false;
    if (fan_relaxed32(&session->hinted) == 0)
        return false;
    fan_take32(&session->hinted);
    for (unsigned i = 0; i < FAN_SESSION_HINTS; i++)
        any |= take(node, &session->hints[i]);
    return any;
}

/* Takes the new hints of all clients. Returns whether there were any. */
static bool take_given(struct fan_node *node)
{
    const struct fan_live *live = &node->sessions.live;
    bool any = false;
    if (fan_relaxed32(&node->segment.header->hinted) == 0)
        return false;
    fan_take32(&node->segment.header->hinted);
    for (uint32_t i = 0; i < live->count; i++)
        any |= take_all(node, &node->segment.sessions[live->sessions[i]]);
    return any;
}

/* Fetches the next block of a hint. A short record of this rank's share is fetched whole to the
 * local disk instead; a block on that disk needs nothing. */
static enum fan_bring bring_next(struct fan_node *node, struct fan_hinted *hinted, uint64_t now_ns)
{
    struct fan_fetch_request request;
    if (fan_mounts_request(&node->mounts, hinted->file, hinted->block, &request) != 0)
        return FAN_BRING_NOWHERE;
    bool here = fan_share_has(&node->mounts.mounts[request.mount], &request);
    if (!here && !fan_share_wants(&node->mounts, &request))
        return fan_fetch_ahead(node, hinted->file, hinted->block, FAN_WHOLE_BLOCK, FAN_FOR_HINT,
                               now_ns);
    enum fan_bring rc = here ? FAN_BRING_THERE : fan_disk_keep(node, &request);
    if (rc != FAN_BRING_LATER)
        hinted->block = hinted->end - 1;
    return rc;
}

static void end_first(struct fan_hints *hints)
{
    hints->first = (hints->first + 1) % FAN_HINTS;
    hints->count--;
}

bool fan_hints_advance(struct fan_node *node, uint64_t now_ns)
{
    struct fan_hints *hints = &node->hints;
    bool any = take_given(node);
    for (unsigned i = 0; i < TURN_BLOCKS && hints->count > 0; i++) {
        struct fan_hinted *first = &hints->line[hints->first];
        enum fan_bring rc = bring_next(node, first, now_ns);
        if (rc == FAN_BRING_LATER)
            return any;
        any = true;
        if (rc == FAN_BRING_NO_ROOM)
            drop(node);
        if (rc > FAN_BRING_THERE || ++first->block == first->end)
            end_first(hints);
    }
    return any;
}
