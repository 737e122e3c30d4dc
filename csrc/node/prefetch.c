#include "prefetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bring.h"
#include "inner.h"
#include "cache/unread.h"
#include "disk_ahead.h"
#include "machine/shared.h"

/* ROOM_SHARE: the part of the cache's room for passing blocks that may be ahead; as much again is
 * left for demands. WAKE_SHARE: of that, what is read before more is brought. AHEAD_RECORDS: of an
 * order, however small they are. TURN_RECORDS: looked at in a turn. PASS_RECORDS: passed at once,
 * as nobody else has the lock of the node meanwhile. */
enum {
    ROOM_SHARE = 2,
    WAKE_SHARE = 4,
    AHEAD_RECORDS = 65536,
    TURN_RECORDS = 64,
    PASS_RECORDS = 1024,
    RETRY_NS = 1000000
};

/* What became of the next record of an order. */
enum step { MOVED, HELD_UP, ALL_HELD_UP };

static uint64_t most_ahead(const struct fan_node *node)
{
    return (uint64_t)fan_blockcache_passing(&node->cache) * FAN_CACHE_GRANULE_BYTES / ROOM_SHARE;
}

static struct fan_order *find(struct fan_prefetch *prefetch, uint64_t id)
{
    struct fan_order *order = prefetch->first;
    while (order != NULL && order->id != id)
        order = order->after;
    return order;
}

static void append(struct fan_prefetch *prefetch, struct fan_order *order)
{
    order->after = NULL;
    if (prefetch->last == NULL)
        prefetch->first = order;
    else
        prefetch->last->after = order;
    prefetch->last = order;
}

static void take_out(struct fan_prefetch *prefetch, const struct fan_order *order)
{
    struct fan_order *before = NULL, *each = prefetch->first;
    for (; each != order; each = each->after)
        before = each;
    if (before == NULL)
        prefetch->first = order->after;
    else
        before->after = order->after;
    if (prefetch->last == order)
        prefetch->last = before;
}

static void free_order(struct fan_order *order)
{
    fan_places_fini(&order->places);
    free(order->records);
    free(order->brought);
    free(order);
}

void fan_prefetch_fini(struct fan_prefetch *prefetch)
{
    while (prefetch->first != NULL) {
        struct fan_order *order = prefetch->first;
        prefetch->first = order->after;
        free_order(order);
    }
}

static bool copy_records(struct fan_order *order, const uint64_t *records, bool with_places)
{
    order->records = malloc((order->count + 1) * sizeof(*records));
    order->brought = malloc(AHEAD_RECORDS * sizeof(*order->brought));
    if (order->records == NULL || order->brought == NULL)
        return false;
    if (order->count > 0)
        memcpy(order->records, records, order->count * sizeof(*records));
    return !with_places || fan_places_init(&order->places, order->records, order->count) == 0;
}

struct fan_order *fan_order_make(const struct fan_node *node, uint32_t mount,
                                 const uint64_t *records, uint64_t count)
{
    struct fan_order *order = calloc(1, sizeof(*order));
    if (order == NULL)
        return NULL;
    order->count = count;
    order->mount = mount;
    if (copy_records(order, records, fan_blockcache_foresees(&node->cache)))
        return order;
    free_order(order);
    return NULL;
}

uint64_t fan_prefetch_begin(struct fan_node *node, struct fan_order *order, uint64_t behind)
{
    struct fan_prefetch *prefetch = &node->prefetch;
    const struct fan_order *first = behind != 0 ? find(prefetch, behind) : NULL;
    order->behind = behind;
    order->begins = first != NULL ? first->begins + first->count : prefetch->uses.now;
    order->id = ++prefetch->last_id;
    append(prefetch, order);
    prefetch->resting = false;
    fan_next_use_begin(node, order);
    return order->id;
}

/* An order does not come to a block any more. */
static void let_go(struct fan_node *node, uint64_t file, uint64_t block)
{
    struct fan_flight *flight = fan_flight_find(&node->flights, file, block);
    if (flight != NULL) {
        if (flight->awaited > 0 && --flight->awaited == 0)
            flight->hinted = false;
        return;
    }
    uint32_t id = fan_blockcache_find(&node->cache, file, block);
    if (id == FAN_NO_FRAME || node->cache.frames[id].awaited == 0)
        return;
    bool unread = fan_unread_is(&node->cache, id);
    fan_blockcache_unawait(&node->cache, id);
    if (node->cache.frames[id].awaited > 0)
        return;
    if (unread)
        fan_add64(&node->stats.ahead_unread_bytes, node->cache.frames[id].bytes);
    fan_unread_leave(&node->cache, id);
    fan_eviction_check(&node->eviction, file);
}

/* The size of a record that is brought as a whole, or 0. */
static uint64_t stored_bytes(const struct fan_node *node, const struct fan_order *order,
                             uint64_t record)
{
    if (!fan_mounts_has_content(&node->mounts, order->mount, record))
        return 0;
    uint64_t bytes = fan_mount_record(&node->mounts.mounts[order->mount], record)->stored_size;
    return bytes <= FAN_FILL_MAX_BYTES ? bytes : 0;
}

/* The loader is past the first record that was brought. */
static void pass_one(struct fan_node *node, struct fan_order *order)
{
    uint64_t record = order->records[order->passed];
    uint32_t bytes = order->brought[order->passed % AHEAD_RECORDS];
    uint64_t file = fan_cache_file(order->mount, record);
    uint64_t stored = stored_bytes(node, order, record);
    for (uint64_t block = 0; block * FAN_CACHE_BLOCK_BYTES < stored; block++)
        let_go(node, file, block);
    node->prefetch.bytes -= bytes;
    order->passed++;
    fan_next_use_renew(node, file);
}

/* The loader is past a record that was not brought. */
static void skip_one(struct fan_node *node, struct fan_order *order)
{
    uint64_t file = fan_cache_file(order->mount, order->records[order->passed]);
    for (uint64_t block = 0; block < order->block; block++) /* but for these */
        let_go(node, file, block);
    order->block = order->bytes = 0;
    order->next = ++order->passed;
    fan_next_use_renew(node, file);
}

/* Whether all is done; if not, nothing more is brought until it is. */
static bool pass(struct fan_node *node, struct fan_order *order, uint64_t position)
{
    for (unsigned i = 0; order->passed < position; i++) {
        order->retry_ns = UINT64_MAX;
        if (i == PASS_RECORDS)
            return false;
        if (order->passed < order->next)
            pass_one(node, order);
        else
            skip_one(node, order);
    }
    order->retry_ns = 0;
    if (order->begins + order->passed > node->prefetch.uses.now)
        node->prefetch.uses.now = order->begins + order->passed;
    if (node->prefetch.bytes <= most_ahead(node) - most_ahead(node) / WAKE_SHARE)
        node->prefetch.resting = false;
    return true;
}

int fan_prefetch_pass(struct fan_node *node, uint64_t id, uint64_t position)
{
    struct fan_order *order = find(&node->prefetch, id);
    if (order == NULL)
        return -EINVAL;
    return pass(node, order, position < order->count ? position : order->count) ? 0 : -EAGAIN;
}

int fan_prefetch_end(struct fan_node *node, uint64_t id)
{
    struct fan_order *order = find(&node->prefetch, id);
    if (order == NULL)
        return -EINVAL;
    if (!pass(node, order, order->count))
        return -EAGAIN;
    take_out(&node->prefetch, order);
    free_order(order);
    return 0;
}

/* On to the next record. */
static void go_on(struct fan_node *node, struct fan_order *order)
{
    order->brought[order->next % AHEAD_RECORDS] = order->bytes;
    node->prefetch.bytes += order->bytes;
    order->next++;
    order->block = 0;
    order->bytes = 0;
}

/* A record that is on this node's disk, or is to be: its pages are read. */
static enum step bring_here(struct fan_node *node, struct fan_order *order,
                            const struct fan_fetch_request *request)
{
    if (fan_disk_ahead(node, request) == FAN_BRING_LATER)
        return HELD_UP;
    go_on(node, order);
    return MOVED;
}

/* An order is to come to a block that is there, or on its way: what that takes of the room for
 * those that are ahead. begun: it was, just now, for this order. */
static uint32_t await(struct fan_node *node, uint64_t file, uint64_t block, bool begun)
{
    struct fan_flight *flight = fan_flight_find(&node->flights, file, block);
    uint32_t id = flight != NULL ? flight->frame : fan_blockcache_find(&node->cache, file, block);
    if (flight != NULL)
        flight->awaited += !begun;
    else if (id != FAN_NO_FRAME)
        fan_blockcache_await(&node->cache, id);
    bool stays = id == FAN_NO_FRAME || fan_blockcache_stays(&node->cache, id);
    if (stays && !(begun && id != FAN_NO_FRAME && node->cache.frames[id].replacing))
        return 0;
    return fan_granules_for(node->cache.frames[id].bytes) * FAN_CACHE_GRANULE_BYTES;
}

static enum step bring_block(struct fan_node *node, struct fan_order *order, uint64_t stored_bytes,
                             uint64_t now_ns)
{
    uint64_t file = fan_cache_file(order->mount, order->records[order->next]);
    enum fan_bring rc = fan_fetch_ahead(node, file, order->block, FAN_FOR_ORDER, now_ns);
    if (rc == FAN_BRING_LATER)
        return ALL_HELD_UP;
    if (rc == FAN_BRING_NO_ROOM) {
        order->retry_ns = now_ns + RETRY_NS;
        return HELD_UP;
    }
    if (rc != FAN_BRING_NOWHERE)
        order->bytes += await(node, file, order->block, rc == FAN_BRING);
    order->block++;
    if (rc == FAN_BRING_NOWHERE || order->block * FAN_CACHE_BLOCK_BYTES >= stored_bytes)
        go_on(node, order);
    return MOVED;
}

/* Whether another order is to be brought first. */
static bool is_behind(struct fan_prefetch *prefetch, struct fan_order *order)
{
    const struct fan_order *first = order->behind != 0 ? find(prefetch, order->behind) : NULL;
    if (first == NULL || first->next == first->count)
        order->behind = 0;
    return order->behind != 0;
}

/* Brings the next record of an order, or a block of it. */
static enum step bring_next(struct fan_node *node, struct fan_order *order, uint64_t now_ns)
{
    if (is_behind(&node->prefetch, order) || now_ns < order->retry_ns ||
        order->next == order->count || order->next - order->passed == AHEAD_RECORDS)
        return HELD_UP;
    uint64_t id = order->records[order->next];
    const struct fan_node_mount *mount = &node->mounts.mounts[order->mount];
    if (stored_bytes(node, order, id) == 0 ||
        fan_mounts_is_damaged(&node->mounts, order->mount, id)) {
        go_on(node, order);
        return MOVED;
    }
    struct fan_fetch_request whole = fan_share_whole(mount, order->mount, id);
    if (fan_disk_ahead_serves(node, &whole))
        return bring_here(node, order, &whole);
    if (node->prefetch.bytes > 0 && node->prefetch.bytes + whole.bytes > most_ahead(node)) {
        node->prefetch.resting = true;
        return ALL_HELD_UP;
    }
    return bring_block(node, order, whole.bytes, now_ns);
}

bool fan_prefetch_advance(struct fan_node *node, uint64_t now_ns)
{
    struct fan_prefetch *prefetch = &node->prefetch;
    struct fan_order *held_up = NULL; /* all since this one are */
    bool any = false;
    for (unsigned i = 0; i < TURN_RECORDS && prefetch->first != NULL && !prefetch->resting; i++) {
        struct fan_order *order = prefetch->first;
        if (order == held_up)
            return any;
        enum step step = bring_next(node, order, now_ns);
        if (step == ALL_HELD_UP)
            return any;
        if (step != HELD_UP)
            held_up = NULL;
        else if (held_up == NULL)
            held_up = order;
        any |= step == MOVED;
        if (order->block == 0 || step == HELD_UP) { /* a record is brought as a whole */
            take_out(prefetch, order);
            append(prefetch, order);
        }
    }
    return any;
}
