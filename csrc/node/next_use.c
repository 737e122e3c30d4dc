#include "next_use.h"

#include "inner.h"

/* TURN_FRAMES: renewed in one turn of the thread. SHORT_RECORDS: what an order of no more reads is
 * renewed at once. SPAN: keys are counted from a later moment once they have grown by so much,
 * which leaves room for the longest orders. */
enum { TURN_FRAMES = 256, SHORT_RECORDS = 1024, SPAN = 1 << 30 };

static uint32_t key_of(const struct fan_next_uses *uses, uint64_t time)
{
    uint64_t key = time > uses->since ? time - uses->since : 0;
    return key < FAN_NEVER ? (uint32_t)key : FAN_NEVER - 1;
}

/* When an order comes to a record behind what was brought for it; UINT64_MAX. */
static uint64_t time_in(struct fan_order *order, uint64_t record)
{
    uint64_t from = order->next;
    if (from < order->count && order->records[from] == record)
        from++;
    uint32_t place = fan_places_find(&order->places, record, order->passed, from);
    return place != FAN_NO_PLACE ? order->begins + place : UINT64_MAX;
}

uint32_t fan_next_use_of(struct fan_node *node, uint64_t file)
{
    uint64_t soonest = UINT64_MAX;
    if (!fan_blockcache_foresees(&node->cache))
        return FAN_NEVER;
    for (struct fan_order *order = fan_order_first(&node->prefetch); order != NULL;
         order = fan_order_after(order)) {
        if (order->mount != fan_cache_mount(file))
            continue;
        uint64_t time = time_in(order, fan_cache_record(file));
        soonest = time < soonest ? time : soonest;
    }
    return soonest != UINT64_MAX ? key_of(&node->prefetch.uses, soonest) : FAN_NEVER;
}

void fan_next_use_renew(struct fan_node *node, uint64_t file)
{
    if (fan_blockcache_foresees(&node->cache))
        fan_blockcache_foresee(&node->cache, file, fan_next_use_of(node, file));
}

void fan_next_use_begin(struct fan_node *node, const struct fan_order *order)
{
    struct fan_next_uses *uses = &node->prefetch.uses;
    bool is_far = uses->now - uses->since > SPAN;
    if (is_far)
        uses->since = uses->now;
    if (is_far || order->count > SHORT_RECORDS) {
        uses->frame = 0;
        return;
    }
    for (uint64_t i = 0; i < order->count; i++)
        fan_next_use_renew(node, fan_cache_file(order->mount, order->records[i]));
}

bool fan_next_use_advance(struct fan_node *node)
{
    uint32_t *frame = &node->prefetch.uses.frame;
    uint32_t count = fan_blockcache_foresees(&node->cache) ? node->segment.entry_count : 0;
    for (uint32_t i = 0; i < TURN_FRAMES && *frame < count; i++, (*frame)++) {
        if (fan_staying_has(&node->cache, *frame))
            fan_next_use_renew(node, node->cache.frames[*frame].file);
    }
    return *frame < count;
}
