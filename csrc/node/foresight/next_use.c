#include "next_use.h"

#include "../cache/blockcache.h"
#include "orders.h"
#include "../storage/mounts.h"

/* TURN_FRAMES: how many frames are updated in one turn of the node thread. SHORT_RECORDS: records
 * of an order with at most so many are updated at once. SPAN: when keys have grown by this much,
 * they are counted from a later time; that leaves room for the longest orders. */
enum { TURN_FRAMES = 256, SHORT_RECORDS = 1024, SPAN = 1 << 30 };

static uint32_t key_of(const struct fan_next_uses *uses, uint64_t time)
{
    uint64_t key = time > uses->since ? time - uses->since : 0;
    return key < FAN_NEVER / 2 ? (uint32_t)key : FAN_NEVER / 2 - 1;
}

/* Returns when an order uses a record again, after the records that were fetched for the order;
 * UINT64_MAX if it does not. is_read: a client reads the record now, so its first place does not
 * count. */
static uint64_t time_in(struct fan_order *order, uint64_t record, bool is_read)
{
    uint64_t from = order->next;
    uint32_t place = fan_places_find(&order->places, record, order->passed, order->passed);
    if (place == FAN_NO_PLACE)
        return UINT64_MAX;
    if (place == from || (is_read && place > from))
        from = place + 1;
    place = fan_places_find(&order->places, record, order->passed, from);
    return place != FAN_NO_PLACE ? order->begins + place : UINT64_MAX;
}

uint32_t fan_next_use_of(const struct fan_orders *orders, uint64_t file, bool is_read)
{
    uint64_t soonest = UINT64_MAX;
    if (!fan_blockcache_foresees(orders->uses.cache))
        return FAN_NEVER;
    const struct fan_node_mount *mount = &orders->uses.mounts->mounts[fan_cache_mount(file)];
    struct fan_fetch_request whole =
        fan_record_request(mount, fan_cache_mount(file), fan_entry_record(fan_cache_record(file)));
    if (fan_share_is_in_memory(mount, &whole))
        return 0;
    uint32_t place;
    const struct fan_order *reader = is_read ? fan_orders_reader(orders, file, &place) : NULL;
    for (struct fan_order *order = fan_orders_first(orders); order != NULL;
         order = fan_orders_after(order)) {
        if (order->mount != fan_cache_mount(file))
            continue;
        uint64_t entry = fan_cache_record(file), time = time_in(order, entry, order == reader);
        soonest = time < soonest ? time : soonest;
        if (fan_entry_is_piece(entry)) {
            time = time_in(order, fan_entry_record(entry), order == reader);
            soonest = time < soonest ? time : soonest;
        }
    }
    return soonest != UINT64_MAX ? key_of(&orders->uses, soonest) : FAN_NEVER;
}

uint32_t fan_next_use_late(const struct fan_orders *orders, const struct fan_order *order,
                           uint64_t bytes)
{
    const struct fan_blockcache *cache = orders->uses.cache;
    uint64_t granules = cache->areas[FAN_AREA_STAYING].count + fan_blockcache_passing(cache);
    uint64_t held = granules / fan_cache_granules(bytes > 0 ? bytes : 1);
    return key_of(&orders->uses, order->begins + order->count + held);
}

uint32_t fan_next_use_ahead(const struct fan_orders *orders, uint64_t file, uint64_t bytes)
{
    uint32_t place, key = fan_next_use_of(orders, file, false);
    const struct fan_order *reader = fan_orders_reader(orders, file, &place);
    if (reader == NULL || key == FAN_NEVER)
        return key;
    uint32_t late = fan_next_use_late(orders, reader, bytes);
    return key < late ? key : late;
}

void fan_next_use_renew(struct fan_orders *orders, uint64_t file)
{
    if (fan_blockcache_foresees(orders->uses.cache))
        fan_blockcache_foresee(orders->uses.cache, file, fan_next_use_of(orders, file, false));
}

void fan_next_use_renew_piece(struct fan_orders *orders, uint32_t id)
{
    const struct fan_frame *frame = &orders->uses.cache->frames[id];
    struct fan_piece part = {frame->from, 1}; /* a piece is known by where it begins */
    if (fan_blockcache_foresees(orders->uses.cache))
        fan_staying_foresee(
            orders->uses.cache, id,
            fan_next_use_of(orders, fan_entry_use(frame->file, frame->block, part), false));
}

void fan_next_use_begin(struct fan_orders *orders, const struct fan_order *order)
{
    struct fan_next_uses *uses = &orders->uses;
    bool is_far = uses->now - uses->since > SPAN;
    if (is_far)
        uses->since = uses->now;
    if (is_far || order->count > SHORT_RECORDS) {
        uses->frame = 0;
        return;
    }
    for (uint64_t i = 0; i < order->count; i++) {
        if (fan_entry_is_piece(order->records[i]))
            uses->frame = 0;
        else
            fan_next_use_renew(orders, fan_cache_file(order->mount, order->records[i]));
    }
}

bool fan_next_use_advance(struct fan_orders *orders)
{
    uint32_t *frame = &orders->uses.frame;
    uint32_t count =
        fan_blockcache_foresees(orders->uses.cache) ? orders->uses.cache->segment->entry_count : 0;
    for (uint32_t i = 0; i < TURN_FRAMES && *frame < count; i++, (*frame)++) {
        if (!fan_staying_has(orders->uses.cache, *frame))
            continue;
        if (orders->uses.cache->frames[*frame].piece)
            fan_next_use_renew_piece(orders, *frame);
        else
            fan_next_use_renew(orders, orders->uses.cache->frames[*frame].file);
    }
    return *frame < count;
}
