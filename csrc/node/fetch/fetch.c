#include "fetch.h"

#include <errno.h>

#include "attempts.h"
#include "../state/state.h"
#include "../machine/shared.h"

/* Makes a flight a demand. If it reads the shared file system, its reading goes before those that
 * no client waits for. */
static void hurry(struct fan_node *node, struct fan_flight *flight)
{
    bool ahead = flight->request.urgency == FAN_AHEAD;
    fan_flight_hurry(&node->flights, flight);
    if (ahead && flight->frame != FAN_NO_FRAME &&
        node->cache.frames[flight->frame].source == FAN_FROM_SHARED)
        fan_readers_hurry(&node->shared, node->cache.frames[flight->frame].reading);
}

/* Adds a want to the flight of its block. */
static void join(struct fan_node *node, struct fan_flight *flight, struct fan_want *want)
{
    bool ahead = flight->request.urgency == FAN_AHEAD;
    fan_add64(&node->stats.ahead_late, ahead && flight->wants == NULL);
    hurry(node, flight);
    fan_flight_join(&node->flights, flight, want);
}

static void start_flight(struct fan_node *node, struct fan_want *want, struct fan_piece part,
                         const struct fan_fetch_request *request, uint64_t now_ns)
{
    struct fan_flight *flight =
        fan_flight_begin(&node->flights, want->file, want->block, part, request);
    if (flight == NULL) {
        fan_want_fail(&node->sessions, want, EREMOTEIO);
        return;
    }
    fan_orders_note_want(&node->orders, fan_entry_use(want->file, want->block, want->part));
    join(node, flight, want);
    fan_attempt_go_on(node, flight, now_ns);
}

/* Returns a flight that brings all of a part of a block, or NULL. */
static struct fan_flight *find_part(const struct fan_flights *flights, uint64_t file,
                                    uint64_t block, struct fan_piece part)
{
    struct fan_flight *flight = part.count == 0
                                    ? fan_flight_find(flights, file, block)
                                    : fan_flight_find_granule(flights, file, block, part.from);
    bool all = flight == NULL || flight->part.count == 0 ||
               part.from + part.count <= flight->part.from + flight->part.count;
    return all ? flight : NULL;
}

enum fan_bring fan_fetch_ahead(struct fan_node *node, uint64_t file, uint64_t block,
                               struct fan_piece part, enum fan_bring_for whom, uint64_t now_ns)
{
    struct fan_fetch_request request;
    enum fan_bring rc = fan_bring_check(node, file, block, &part, whom, &request);
    if (rc != FAN_BRING)
        return rc;
    struct fan_flight *flight = fan_flight_begin(&node->flights, file, block, part, &request);
    if (flight == NULL)
        return FAN_BRING_NO_ROOM;
    flight->hinted = whom != FAN_FOR_RUN;
    flight->replaces = whom == FAN_FOR_ORDER_REPLACING;
    fan_attempt_go_on(node, flight, now_ns);
    if (find_part(&node->flights, file, block, part) == NULL)
        return FAN_BRING_NO_ROOM;
    fan_add64(&node->stats.ahead, 1);
    fan_add64(&node->stats.ahead_bytes, request.bytes);
    return FAN_BRING;
}

struct fan_flight *fan_fetch_for_rank(struct fan_node *node, uint64_t file, uint64_t block,
                                      struct fan_piece part, enum fan_urgency urgency,
                                      uint64_t now_ns)
{
    struct fan_fetch_request request;
    struct fan_flight *flight = find_part(&node->flights, file, block, part);
    if (flight != NULL) {
        if (urgency == FAN_DEMAND)
            hurry(node, flight);
        return flight;
    }
    if (node->flights.grounded.count > 0 ||
        fan_mounts_request(&node->mounts, file, block, &request) != 0 ||
        fan_mounts_narrow(&node->mounts, &request, &part) != 0)
        return NULL;
    request.urgency = urgency;
    flight = fan_flight_begin(&node->flights, file, block, part, &request);
    if (flight != NULL)
        fan_attempt_go_on(node, flight, now_ns);
    return find_part(&node->flights, file, block, part);
}

/* Fetches ahead of a run. Returns whether the want belongs to one. */
static bool read_ahead(struct fan_node *node, const struct fan_want *want, uint64_t now_ns)
{
    uint32_t session = (uint32_t)(want - node->sessions.wants) / FAN_SESSION_PINS;
    uint64_t file = want->file, block = want->block;
    uint32_t count = fan_streams_note(&node->streams, session, file, block);
    for (uint32_t i = 1; i <= count; i++) {
        if (fan_fetch_ahead(node, file, block + i, FAN_WHOLE_BLOCK, FAN_FOR_RUN, now_ns) >
            FAN_BRING_THERE)
            break;
    }
    return count > 0;
}

/* Returns the part of a block to fetch for a want: what the client asks for, up to the next granule
 * that is here or on its way, because nothing is fetched twice. */
static struct fan_piece part_to_fetch(const struct fan_node *node, const struct fan_want *want)
{
    struct fan_piece part = want->part;
    bool untouched = !fan_blockcache_may_have_pieces(&node->cache, want->file, want->block) &&
                     fan_flight_find_any(&node->flights, want->file, want->block) == NULL;
    if (part.from < FAN_BLOCK_GRANULES && !untouched) {
        uint32_t most = FAN_BLOCK_GRANULES - part.from;
        part.count = part.count == 0 || part.count > most ? most : part.count;
        fan_bring_missing(node, want->file, want->block, &part);
    }
    return part;
}

static void answer_or_fly(struct fan_node *node, struct fan_want *want, uint64_t now_ns)
{
    struct fan_fetch_request request;
    uint32_t granule = want->part.from;
    uint32_t id = fan_blockcache_find_granule(&node->cache, want->file, want->block, granule);
    if (id != FAN_NO_FRAME) {
        fan_blockcache_use(&node->cache, id);
        fan_want_grant(&node->sessions, want, id, FAN_STALL_CACHE);
        return;
    }
    struct fan_flight *flight =
        fan_flight_find_granule(&node->flights, want->file, want->block, granule);
    struct fan_piece part = part_to_fetch(node, want);
    if (flight != NULL) {
        fan_add64(&node->stats.coalesced, 1);
        join(node, flight, want);
    } else if (fan_mounts_request(&node->mounts, want->file, want->block, &request) != 0 ||
               fan_mounts_narrow(&node->mounts, &request, &part) != 0) {
        fan_want_fail(&node->sessions, want, EIO);
    } else {
        start_flight(node, want, part, &request, now_ns);
    }
}

static void note_habit(struct fan_node *node, const struct fan_want *want, enum fan_habit habit)
{
    struct fan_node_mount *mount = &node->mounts.mounts[fan_cache_mount(want->file)];
    if (fan_mount_is_long(mount, fan_cache_record(want->file)))
        mount->habit = habit;
}

void fan_fetch_want(struct fan_node *node, struct fan_want *want, uint64_t now_ns)
{
    answer_or_fly(node, want, now_ns);
    if (want->part.count > 0)
        note_habit(node, want, FAN_READS_PIECES);
    else if (read_ahead(node, want, now_ns))
        note_habit(node, want, FAN_READS_IN_SEQUENCE);
}
