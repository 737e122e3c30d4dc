#include "prefetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../fetch/bring.h"
#include "../fetch/fetch.h"
#include "../state/state.h"
#include "../cache/unread.h"
#include "disk_ahead.h"
#include "../machine/shared.h"
#include "../storage/marks.h"
#include "../storage/staged.h"

/* ROOM_SHARE: the part of the cache's room for passing blocks that may be ahead; an equal part is
 * left for blocks that clients wait for. PAGES_BYTES: how much of this node's disk may be read
 * ahead. LONG_BYTES, LONG_SHARE: the most of one long record that may be ahead, in bytes and as a
 * part of the cache. READ_AT_ONCE: how many long records a loader reads at once at most.
 * TURN_RECORDS: how many records are fetched in one turn. PASS_RECORDS: how many are passed at
 * once, because no other thread gets the node's lock meanwhile. VAIN_PIECES: over about how many
 * pieces `vain` is a mean. VAIN_AHEAD, TRIED_PIECES: while most are in vain, how far ahead pieces
 * are fetched, and one of how many. */
enum {
    ROOM_SHARE = 2,
    PAGES_BYTES = 128 << 20,
    LONG_BYTES = 256 << 20,
    LONG_SHARE = 4,
    READ_AT_ONCE = 64,
    TURN_RECORDS = 64,
    PASS_RECORDS = 1024,
    VAIN_PIECES = 256,
    VAIN_AHEAD = 1024,
    TRIED_PIECES = 64,
    RETRY_NS = 1000000
};

/* Flags in `brought`. IN_PAGES: the other bits count bytes of pages, not of the cache. UNASKED: no
 * block of the record was asked for, so the order awaits none. */
static const uint32_t IN_PAGES = UINT32_C(1) << 31;
static const uint32_t UNASKED = UINT32_C(1) << 30;

/* What happened with the next record of an order. */
enum step { MOVED, HELD_UP, ALL_HELD_UP };

uint64_t fan_prefetch_begin(struct fan_node *node, struct fan_order *order, uint64_t behind)
{
    struct fan_orders *orders = &node->orders;
    const struct fan_order *first = behind != 0 ? fan_orders_find(orders, behind) : NULL;
    order->behind = behind;
    order->begins = first != NULL ? first->begins + first->count : orders->uses.now;
    order->id = ++orders->last_id;
    fan_queue_put(&orders->turns, &order->turn.link);
    fan_window_join(&orders->window, &order->part);
    orders->window.most[FAN_POOL_PAGES] = PAGES_BYTES;
    orders->window.most[FAN_POOL_CACHE] =
        (uint64_t)fan_blockcache_passing(&node->cache) * FAN_CACHE_GRANULE_BYTES / ROOM_SHARE;
    fan_next_use_begin(&node->orders, order);
    return order->id;
}

/* A piece of a file: its block, and its granules there. */
struct target {
    uint64_t file;
    uint64_t block;
    struct fan_piece part;
};

/* Returns the piece that an entry names. part.count is 0 if the file ends before it. */
static struct target target_of(const struct fan_node *node, const struct fan_order *order,
                               uint64_t entry)
{
    const uint64_t most = FAN_PIECE_BYTES / FAN_CACHE_GRANULE_BYTES;
    uint64_t record = fan_entry_record(entry);
    uint64_t first = fan_entry_offset(entry) / FAN_CACHE_GRANULE_BYTES;
    uint64_t granules = fan_cache_granules(
        fan_mount_record(&node->mounts.mounts[order->mount], record)->stored_size);
    uint64_t left = granules > first ? granules - first : 0;
    return (struct target){
        fan_cache_file(order->mount, record),
        first / FAN_BLOCK_GRANULES,
        {(uint32_t)(first % FAN_BLOCK_GRANULES), (uint32_t)(left < most ? left : most)}};
}

/* The fate of a block that an order lets go. UNDECIDED: another order awaits it, or it is not
 * here. */
enum fate { UNDECIDED, READ, UNREAD };

/* Call it when an order will no longer read a block, or a granule of a piece that it names.
 * granule: FAN_BLOCK_GRANULES for a block. */
static enum fate let_go(struct fan_node *node, uint64_t file, uint64_t block, uint32_t granule)
{
    struct fan_flight *flight = fan_flight_find_granule(&node->flights, file, block, granule);
    if (flight != NULL) {
        if (flight->awaited > 0 && --flight->awaited == 0)
            flight->hinted = false;
        return UNDECIDED;
    }
    uint32_t id = fan_blockcache_find_granule(&node->cache, file, block, granule);
    if (id == FAN_NO_FRAME || node->cache.frames[id].awaited == 0)
        return UNDECIDED;
    bool unread = fan_unread_is(&node->cache, id);
    bool untouched = fan_blockcache_stays(&node->cache, id)
                         ? fan_relaxed32(&node->segment.entries[id].touched) == 0
                         : unread;
    fan_blockcache_unawait(&node->cache, id);
    if (node->cache.frames[id].awaited > 0)
        return UNDECIDED;
    if (unread && granule == FAN_BLOCK_GRANULES) /* a sample may read a part of a piece */
        fan_add64(&node->stats.ahead_unread_bytes, node->cache.frames[id].bytes);
    fan_unread_leave(&node->cache, id);
    if (granule == FAN_BLOCK_GRANULES)
        fan_eviction_check(&node->eviction, file);
    else
        fan_blockcache_close_one(&node->cache, id); /* the file stays open */
    return untouched ? UNREAD : READ;
}

/* Returns how many bytes from the front of a record are fetched ahead: of a long one only as many
 * as leave room for others. */
static uint64_t front_bytes(const struct fan_node *node, const struct fan_order *order,
                            uint64_t record)
{
    if (!fan_mounts_has_content(&node->mounts, order->mount, record))
        return 0;
    uint64_t most = (uint64_t)node->segment.entry_count * FAN_CACHE_GRANULE_BYTES / LONG_SHARE;
    uint64_t bytes = fan_mount_record(&node->mounts.mounts[order->mount], record)->stored_size;
    most = most < LONG_BYTES ? most : LONG_BYTES;
    return bytes <= FAN_FILL_MAX_BYTES || bytes < most ? bytes : most;
}

/* Returns whether a block stays that may go for the next record of an order, though the window is
 * full. That must be read again, or what is read once would drive out what is read in each epoch.
 * It may come from another rank, which counts as the least reason to evict. */
static bool has_way(const struct fan_node *node, const struct fan_order *order)
{
    const struct fan_blockcache *cache = &node->cache;
    if (!fan_blockcache_foresees(cache) || order->next == order->count)
        return false;
    enum fan_source source = node->ranks.transport != NULL ? FAN_FROM_RANK : FAN_FROM_SHARED;
    uint64_t record = order->records[order->next];
    uint64_t file = fan_cache_file(order->mount, record);
    uint64_t bytes =
        fan_entry_is_piece(record) ? FAN_PIECE_BYTES : front_bytes(node, order, record);
    uint32_t late = fan_next_use_late(&node->orders, order, bytes);
    const struct fan_victims *victims = &cache->staying.by_next_use;
    return victims->count > 0 && !fan_victims_declines(victims, fan_staying_key(source, late)) &&
           fan_next_use_of(&node->orders, file, false) != FAN_NEVER;
}

/* is_jump: the reader may have skipped the piece. */
static void let_go_of_piece(struct fan_node *node, struct fan_order *order, uint64_t entry,
                            bool is_jump)
{
    struct target piece = target_of(node, order, entry);
    unsigned fates[UNREAD + 1] = {0};
    for (uint32_t i = 0; i < piece.part.count; i++)
        fates[let_go(node, piece.file, piece.block, piece.part.from + i)]++;
    if (is_jump || (fates[READ] == 0 && fates[UNREAD] == 0))
        return;
    order->vain -= order->vain / VAIN_PIECES;
    order->vain += fates[READ] == 0 ? FAN_VAIN_ALL / VAIN_PIECES : 0;
}

/* Lets go of what was fetched for an entry of an order. */
static void let_go_of(struct fan_node *node, struct fan_order *order, uint64_t entry, bool is_jump)
{
    if (fan_entry_is_piece(entry)) {
        let_go_of_piece(node, order, entry, is_jump);
        return;
    }
    uint64_t file = fan_cache_file(order->mount, entry), stored = front_bytes(node, order, entry);
    for (uint64_t block = 0; block * FAN_CACHE_BLOCK_BYTES < stored; block++)
        let_go(node, file, block, FAN_BLOCK_GRANULES);
}

/* Returns whether nobody read most of the pieces that were fetched lately: the kernel still has
 * what is mapped, or the order is wrong. Then only a few are fetched, near the reader, to see
 * whether that changes. */
static bool is_in_vain(const struct fan_order *order)
{
    return order->vain > FAN_VAIN_ALL / 2;
}

/* Updates when a passed entry is used next. */
static void renew(struct fan_node *node, const struct fan_order *order, uint64_t entry)
{
    if (!fan_entry_is_piece(entry)) {
        fan_next_use_renew(&node->orders, fan_cache_file(order->mount, entry));
        return;
    }
    struct target piece = target_of(node, order, entry);
    for (uint32_t i = 0; i < piece.part.count; i++) {
        uint32_t id =
            fan_blockcache_find_granule(&node->cache, piece.file, piece.block, piece.part.from + i);
        if (id != FAN_NO_FRAME && node->cache.frames[id].piece)
            fan_next_use_renew_piece(&node->orders, id);
    }
}

/* Updates an order after the loader has read the first of its fetched records. */
static void pass_one(struct fan_node *node, struct fan_order *order, bool is_jump)
{
    uint64_t record = order->records[order->passed];
    uint32_t brought = order->brought[order->passed % FAN_PREFETCH_RECORDS];
    if (!(brought & UNASKED))
        let_go_of(node, order, record, is_jump);
    fan_window_give(&node->orders.window, &order->part,
                    brought & IN_PAGES ? FAN_POOL_PAGES : FAN_POOL_CACHE,
                    brought & ~(IN_PAGES | UNASKED));
    order->passed++;
    renew(node, order, record);
}

/* Handles that the loader is past a record that was not fetched. */
static void skip_one(struct fan_node *node, struct fan_order *order)
{
    uint64_t record = order->records[order->passed];
    for (uint64_t block = 0; block < order->block; block++) /* except these blocks of it */
        let_go(node, fan_cache_file(order->mount, record), block, FAN_BLOCK_GRANULES);
    order->block = order->bytes = 0;
    order->next = ++order->passed;
    renew(node, order, record);
}

/* Passes records up to `position`. Returns whether it is done; until it is, nothing more is fetched
 * for the order. */
static bool pass(struct fan_node *node, struct fan_order *order, uint64_t position)
{
    for (unsigned i = 0; order->passed < position; i++) {
        order->retry_ns = UINT64_MAX;
        if (i == PASS_RECORDS)
            return false;
        if (order->passed < order->next)
            pass_one(node, order, position - order->passed > VAIN_PIECES);
        else
            skip_one(node, order);
    }
    order->retry_ns = 0;
    if (order->begins + order->passed > node->orders.uses.now)
        node->orders.uses.now = order->begins + order->passed;
    for (struct fan_order *each = fan_orders_first(&node->orders); each != NULL;
         each = fan_orders_after(each)) {
        fan_window_wake(&node->orders.window, &each->part, each == order);
        if (each->part.rests == FAN_POOL_CACHE && has_way(node, each))
            each->part.rests = FAN_POOLS;
    }
    return true;
}

int fan_prefetch_read(struct fan_node *node, uint64_t id, uint64_t read, uint64_t now_ns)
{
    struct fan_orders *orders = &node->orders;
    struct fan_order *order = fan_orders_find(orders, id);
    if (order == NULL)
        return -EINVAL;
    fan_pace_note(&order->turn.pace, read, order->next <= read, now_ns);
    for (struct fan_order *each = fan_orders_first(orders); each != NULL;
         each = fan_orders_after(each)) {
        if (each->behind == id) { /* the same loader reads that order later */
            each->turn.pace = order->turn.pace;
            each->turn.pace.read = 0;
        }
    }
    return 0;
}

/* Returns how many of the first `position` records the loader has also read to the end: a long
 * record that came ahead is read as long as a client has it open. */
static uint64_t position_read(const struct fan_node *node, const struct fan_order *order,
                              uint64_t position)
{
    const struct fan_node_mount *mount = &node->mounts.mounts[order->mount];
    uint64_t end = position < order->next ? position : order->next;
    uint64_t at = end > order->passed + READ_AT_ONCE ? end - READ_AT_ONCE : order->passed;
    for (; at < end; at++) {
        uint64_t record = order->records[at];
        if (!(order->brought[at % FAN_PREFETCH_RECORDS] & UNASKED) && !fan_entry_is_piece(record) &&
            fan_mount_is_long(mount, record) &&
            fan_eviction_is_open(&node->eviction, fan_cache_file(order->mount, record)))
            return at;
    }
    return position;
}

int fan_prefetch_pass(struct fan_node *node, uint64_t id, uint64_t position)
{
    struct fan_order *order = fan_orders_find(&node->orders, id);
    if (order == NULL)
        return -EINVAL;
    position = position_read(node, order, position < order->count ? position : order->count);
    return pass(node, order, position) ? 0 : -EAGAIN;
}

int fan_prefetch_end(struct fan_node *node, uint64_t id)
{
    struct fan_order *order = fan_orders_find(&node->orders, id);
    if (order == NULL)
        return -EINVAL;
    if (!pass(node, order, order->count))
        return -EAGAIN;
    fan_queue_remove(&node->orders.turns, &order->turn.link);
    fan_window_leave(&node->orders.window);
    fan_order_free(order);
    return 0;
}

/* Goes on to the next record of an order. bytes: how many bytes of this one are ahead. */
static void go_on(struct fan_node *node, struct fan_order *order, enum fan_pool pool,
                  uint32_t bytes)
{
    uint32_t flags = (pool == FAN_POOL_PAGES ? IN_PAGES : 0) | (order->block == 0 ? UNASKED : 0);
    order->brought[order->next % FAN_PREFETCH_RECORDS] = bytes | flags;
    fan_window_take(&node->orders.window, &order->part, pool, bytes);
    order->next++;
    order->block = 0;
    order->bytes = 0;
}

/* Reads the pages of a record, or of a piece of it, that this node's disk has or is to have. */
static enum step bring_here(struct fan_node *node, struct fan_order *order,
                            const struct fan_fetch_request *whole, uint64_t entry)
{
    struct fan_fetch_request request = *whole;
    if (fan_entry_is_piece(entry)) {
        const struct fan_node_mount *mount = &node->mounts.mounts[order->mount];
        uint64_t stored = fan_mount_record(mount, request.record)->stored_size;
        uint64_t at = fan_entry_offset(entry);
        uint64_t left = stored > at ? stored - at : 0;
        request.offset += at;
        request.bytes = left < FAN_PIECE_BYTES ? (uint32_t)left : FAN_PIECE_BYTES;
    }
    if (fan_disk_ahead(node, &request) == FAN_BRING_LATER)
        return HELD_UP;
    go_on(node, order, FAN_POOL_PAGES, request.bytes);
    return MOVED;
}

/* Makes an order await a block that is in the cache or on its way, or a granule of one. granule:
 * FAN_BLOCK_GRANULES for a block. Returns the bytes that it takes of the window. */
static uint32_t await(struct fan_node *node, uint64_t file, uint64_t block, uint32_t granule)
{
    struct fan_flight *flight = fan_flight_find_granule(&node->flights, file, block, granule);
    uint32_t id = flight != NULL ? flight->frame
                                 : fan_blockcache_find_granule(&node->cache, file, block, granule);
    if (flight != NULL)
        flight->awaited++;
    else if (id != FAN_NO_FRAME)
        fan_blockcache_await(&node->cache, id);
    if (id == FAN_NO_FRAME || fan_blockcache_stays(&node->cache, id))
        return 0;
    uint32_t bytes = granule == FAN_BLOCK_GRANULES ? node->cache.frames[id].bytes : 1;
    return fan_granules_for(bytes) * FAN_CACHE_GRANULE_BYTES;
}

/* Handles that a block or piece is not fetched now. */
static enum step held_up(struct fan_order *order, enum fan_bring why, enum fan_bring_for whom,
                         uint64_t now_ns)
{
    if (why == FAN_BRING_LATER)
        return ALL_HELD_UP;
    if (whom == FAN_FOR_ORDER_REPLACING)
        order->part.rests = FAN_POOL_CACHE;
    order->retry_ns = now_ns + RETRY_NS;
    return HELD_UP;
}

static enum step bring_block(struct fan_node *node, struct fan_order *order, uint64_t stored_bytes,
                             enum fan_bring_for whom, uint64_t now_ns)
{
    uint64_t file = fan_cache_file(order->mount, order->records[order->next]);
    enum fan_bring rc = fan_fetch_ahead(node, file, order->block, FAN_WHOLE_BLOCK, whom, now_ns);
    if (rc == FAN_BRING_LATER || rc == FAN_BRING_NO_ROOM)
        return held_up(order, rc, whom, now_ns);
    if (rc != FAN_BRING_NOWHERE)
        order->bytes += await(node, file, order->block, FAN_BLOCK_GRANULES);
    order->block++;
    if (rc == FAN_BRING_NOWHERE || order->block * FAN_CACHE_BLOCK_BYTES >= stored_bytes)
        go_on(node, order, FAN_POOL_CACHE, order->bytes);
    return MOVED;
}

/* Fetches what is missing of a piece, which other fragments may surround. */
static enum fan_bring fetch_piece(struct fan_node *node, const struct target *piece,
                                  enum fan_bring_for whom, uint64_t now_ns)
{
    enum fan_bring rc;
    do {
        rc = fan_fetch_ahead(node, piece->file, piece->block, piece->part, whom, now_ns);
    } while (rc == FAN_BRING);
    return rc;
}

/* Fetches the piece of a large record that comes next in an order. */
static enum step bring_piece(struct fan_node *node, struct fan_order *order,
                             enum fan_bring_for whom, uint64_t now_ns)
{
    struct target piece = target_of(node, order, order->records[order->next]);
    enum fan_bring rc = fetch_piece(node, &piece, whom, now_ns);
    if (rc == FAN_BRING_LATER || rc == FAN_BRING_NO_ROOM)
        return held_up(order, rc, whom, now_ns);
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < piece.part.count && rc == FAN_BRING_THERE; i++)
        bytes += await(node, piece.file, piece.block, piece.part.from + i);
    order->block = rc == FAN_BRING_THERE; /* then it is to be let go */
    go_on(node, order, FAN_POOL_CACHE, bytes);
    return MOVED;
}

/* Returns whether another order must be fetched first. */
static bool is_behind(const struct fan_orders *orders, const struct fan_order *order)
{
    const struct fan_order *first =
        order->behind != 0 ? fan_orders_find(orders, order->behind) : NULL;
    return first != NULL && first->next < first->count;
}

/* What to do with the next entry of an order: fetch it, leave it to its reader, or decide later. */
enum verdict { FETCH, LEAVE, DECIDE_LATER };

/* Decides about a piece of a record that is not on this node's disk. */
static enum verdict judge_piece(const struct fan_order *order)
{
    if (!is_in_vain(order))
        return FETCH;
    if (order->next - order->passed > VAIN_AHEAD)
        return DECIDE_LATER;
    return order->next % TRIED_PIECES == 0 ? FETCH : LEAVE;
}

/* Decides about a whole long record: the reader of the first one shows how it reads them. */
static enum verdict judge_long(const struct fan_node_mount *mount, const struct fan_order *order,
                               bool here)
{
    if (order->block > 0 || (!here && mount->habit == FAN_READS_IN_SEQUENCE))
        return FETCH;
    bool unknown = !here && mount->habit == FAN_READS_UNKNOWN && order->next < READ_AT_ONCE;
    return unknown ? DECIDE_LATER : LEAVE;
}

/* whole: all of the record that may be fetched ahead; here: it is on this node's disk, or is to
 * come there. */
static enum verdict judge(struct fan_node *node, const struct fan_order *order,
                          const struct fan_fetch_request *whole, bool here)
{
    const struct fan_node_mount *mount = &node->mounts.mounts[order->mount];
    uint64_t entry = order->records[order->next], id = fan_entry_record(entry);
    if (front_bytes(node, order, id) == 0 ||
        fan_mounts_is_damaged(&node->mounts, order->mount, id) ||
        fan_mount_is_at_neighbour(mount, id) ||
        (fan_order_is_wanted(order, order->next) && order->block == 0))
        return LEAVE;
    if (fan_entry_is_piece(entry) && here)
        return fan_staged_has(mount, whole) ? FETCH : LEAVE;
    if (fan_entry_is_piece(entry))
        return judge_piece(order);
    return fan_mount_is_long(mount, id) ? judge_long(mount, order, here) : FETCH;
}

/* Returns the bytes for which the next step of an order needs room in the window. It takes a long
 * record block by block, or that would never fit into a small one. */
static uint64_t step_bytes(const struct fan_node *node, const struct fan_order *order)
{
    uint64_t entry = order->records[order->next];
    if (fan_entry_is_piece(entry))
        return FAN_PIECE_BYTES;
    return fan_mount_is_long(&node->mounts.mounts[order->mount], entry)
               ? order->bytes + FAN_CACHE_BLOCK_BYTES
               : front_bytes(node, order, entry);
}

/* Fetches the next record of an order, or one block of it. */
static enum step bring_next(struct fan_node *node, struct fan_order *order, bool full,
                            uint64_t now_ns)
{
    if (order->part.rests != FAN_POOLS || is_behind(&node->orders, order) ||
        now_ns < order->retry_ns || order->next == order->count ||
        order->next - order->passed == FAN_PREFETCH_RECORDS)
        return HELD_UP;
    uint64_t entry = order->records[order->next], id = fan_entry_record(entry);
    struct fan_fetch_request whole =
        fan_record_request(&node->mounts.mounts[order->mount], order->mount, id);
    whole.bytes = (uint32_t)front_bytes(node, order, id);
    bool here = whole.bytes > 0 && fan_disk_ahead_serves(node, &whole);
    enum verdict verdict = judge(node, order, &whole, here);
    if (verdict == DECIDE_LATER)
        return HELD_UP;
    if (verdict == LEAVE) {
        go_on(node, order, FAN_POOL_CACHE, 0);
        return MOVED;
    }
    enum fan_pool pool = here ? FAN_POOL_PAGES : FAN_POOL_CACHE;
    enum fan_bring_for whom = FAN_FOR_ORDER;
    if (!fan_window_admit(&node->orders.window, &order->part, pool, step_bytes(node, order),
                          full)) {
        if (here || !has_way(node, order))
            return HELD_UP;
        order->part.rests = FAN_POOLS;
        whom = FAN_FOR_ORDER_REPLACING;
    }
    if (here)
        return bring_here(node, order, &whole, entry);
    return fan_entry_is_piece(entry) ? bring_piece(node, order, whom, now_ns)
                                     : bring_block(node, order, whole.bytes, whom, now_ns);
}

/* Returns how many records the loader must read before it comes to the next record to fetch. */
static uint64_t ahead_of(const struct fan_orders *orders, const struct fan_order *order)
{
    const struct fan_order *first =
        order->behind != 0 ? fan_orders_find(orders, order->behind) : NULL;
    uint64_t read = order->turn.pace.read > order->passed ? order->turn.pace.read : order->passed;
    uint64_t ahead = order->next > read ? order->next - read : 0;
    return first != NULL ? ahead + ahead_of(orders, first) : ahead;
}

/* Sets `ahead` of all orders. Returns whether one of them does not rest. */
static bool begin_turns(struct fan_orders *orders, uint64_t now_ns)
{
    bool any = false;
    for (struct fan_order *order = fan_orders_first(orders); order != NULL;
         order = fan_orders_after(order))
        any |= order->part.rests == FAN_POOLS;
    if (!any)
        return false;
    for (struct fan_order *order = fan_orders_first(orders); order != NULL;
         order = fan_orders_after(order))
        order->turn.ahead = ahead_of(orders, order);
    fan_turns_begin(&orders->turns, now_ns);
    return true;
}

bool fan_prefetch_advance(struct fan_node *node, uint64_t now_ns)
{
    struct fan_queue *turns = &node->orders.turns;
    unsigned moved = 0;
    bool full = false;
    if (!begin_turns(&node->orders, now_ns))
        return false;
    while (moved < TURN_RECORDS && turns->count > 0) {
        struct fan_order *order = (struct fan_order *)fan_turns_next(turns);
        enum step step = order != NULL ? bring_next(node, order, full, now_ns) : ALL_HELD_UP;
        if (step == ALL_HELD_UP)
            break;
        moved += step == MOVED;
        if (step == HELD_UP) {
            full |= order->part.rests != FAN_POOLS;
            fan_turns_hold(turns, &order->turn);
        } else if (order->block == 0) { /* a record counts when its first block is begun */
            fan_turns_took(turns, &order->turn);
        }
    }
    return moved > 0;
}
