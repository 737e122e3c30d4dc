#include "new_wants.h"

#include "fetch.h"
#include "../state/state.h"

static bool start_of_session(struct fan_node *node, uint32_t session, uint64_t now_ns)
{
    struct fan_want *want;
    unsigned pin = 0;
    bool any = false;
    if (!fan_session_take_wanted(&node->sessions, session))
        return false;
    while ((want = fan_session_next_want(&node->sessions, session, &pin, now_ns)) != NULL) {
        fan_fetch_want(node, want, now_ns);
        any = true;
    }
    return any;
}

bool fan_new_wants_start(struct fan_node *node, uint64_t now_ns)
{
    uint32_t words = (node->segment.session_count + 63) / 64;
    bool any = false;
    for (uint32_t word = 0; word < words; word++) {
        uint64_t rung = fan_sessions_take_rung(&node->sessions, word);
        for (; rung != 0; rung &= rung - 1)
            any |= start_of_session(node, word * 64 + (uint32_t)__builtin_ctzll(rung), now_ns);
    }
    return any;
}
