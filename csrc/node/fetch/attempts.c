#include "attempts.h"

#include <errno.h>
#include <stdlib.h>

#include "../state/state.h"
#include "../cache/unread.h"
#include "copies.h"
#include "../storage/keep.h"
#include "../storage/marks.h"
#include "../storage/originals.h"
#include "../storage/staged.h"
#include "../machine/shared.h"

/* Ends a flight that nothing needs. id: the frame with its block, or FAN_NO_FRAME. */
static void end(struct fan_node *node, struct fan_flight *flight, uint32_t id)
{
    fan_reply_all(&node->replies, &flight->asked, id, flight->request.offset);
    fan_flight_end(&node->flights, flight);
}

void fan_attempt_fail(struct fan_node *node, struct fan_flight *flight)
{
    while (flight->wants != NULL) {
        struct fan_want *want = flight->wants;
        fan_flight_leave(want);
        fan_want_fail(&node->sessions, want, flight->unreadable ? EIO : EREMOTEIO);
    }
    end(node, flight, FAN_NO_FRAME);
}

static void count_latency(struct fan_node *node, uint64_t since_ns, uint64_t now_ns)
{
    uint64_t us = (now_ns - since_ns) / 1000;
    unsigned bin = us == 0 ? 0 : 63 - (unsigned)__builtin_clzll(us);
    fan_add64(&node->stats.latency_bins[bin < FAN_LATENCY_BINS ? bin : FAN_LATENCY_BINS - 1], 1);
}

static void grant_flight(struct fan_node *node, struct fan_flight *flight, uint32_t id,
                         uint64_t now_ns)
{
    bool from_rank = node->cache.frames[id].source == FAN_FROM_RANK;
    if (flight->wants == NULL && flight->hinted)
        fan_unread_enter(&node->cache, id);
    else if (flight->wants == NULL)
        fan_eviction_check(&node->eviction, flight->file);
    while (flight->wants != NULL) {
        struct fan_want *want = flight->wants;
        fan_flight_leave(want);
        if (from_rank)
            count_latency(node, want->since_ns, now_ns);
        fan_want_grant(&node->sessions, want, id, from_rank ? FAN_STALL_RANK : FAN_STALL_SHARED);
    }
    end(node, flight, id);
}

static void shared_block_read(struct fan_node *node, struct fan_reading *reading);

static uint64_t token_of(const struct fan_node *node, uint32_t id)
{
    return (uint64_t)node->cache.frames[id].generation << 32 | id;
}

/* Asks one rank for the bytes of a frame. Returns false if the transport refuses. */
static bool ask(struct fan_node *node, struct fan_flight *flight, uint32_t rank, uint32_t id,
                uint64_t now_ns)
{
    struct fan_transport *transport = node->ranks.transport;
    struct fan_frame *frame = &node->cache.frames[id];
    if (flight->tried.count > 0)
        fan_add64(&node->stats.retries, 1);
    flight->tried.ranks[flight->tried.count++] = rank;
    int rc = transport->fetch(transport->context, rank, &flight->request,
                              fan_blockcache_data(&node->cache, id), token_of(node, id));
    if (rc < 0) {
        fan_blockcache_release(&node->cache, id);
        if (!fan_is_momentary(rc))
            fan_ranks_lose(&node->ranks, rank);
        return false;
    }
    frame->flight = flight;
    flight->frame = id;
    flight->asked_ahead = flight->request.urgency == FAN_AHEAD;
    frame->rank = rank;
    frame->deadline_ns = now_ns + node->options.deadline_ns;
    fan_ranks_ask(&node->ranks, rank, now_ns);
    fan_add64(&node->stats.fetches, 1);
    return true;
}

/* The reading of a block from the shared file system into a frame. */
struct shared_reading {
    struct fan_reading reading;
    struct fan_mounts *mounts;
    struct fan_fetch_request request;
    void *to;
    uint32_t frame;
};

static int read_shared_block(struct fan_reading *reading)
{
    const struct shared_reading *shared = (const struct shared_reading *)reading;
    return fan_keep_and_read(shared->mounts, &shared->request, shared->to);
}

/* Gives the filling of a frame to a reader's thread. Returns false if that is not possible. */
static bool read_shared(struct fan_node *node, struct fan_flight *flight, uint32_t id,
                        uint64_t now_ns)
{
    struct shared_reading *shared = malloc(sizeof(*shared));
    flight->read_shared = true;
    if (shared != NULL) {
        *shared = (struct shared_reading){.reading = {.urgency = flight->request.urgency,
                                                      .read = read_shared_block,
                                                      .done = shared_block_read},
                                          .mounts = &node->mounts,
                                          .request = flight->request,
                                          .to = fan_blockcache_data(&node->cache, id),
                                          .frame = id};
    }
    if (shared == NULL || fan_readers_give(&node->shared, &shared->reading) != 0) {
        free(shared);
        fan_blockcache_release(&node->cache, id);
        return false;
    }
    struct fan_frame *frame = &node->cache.frames[id];
    frame->flight = flight;
    flight->frame = id;
    frame->reading = &shared->reading;
    frame->deadline_ns = now_ns + node->options.shared_deadline_ns;
    return true;
}

/* Returns the rank to ask next: one that has the pack, or keeps the record on its disk or in its
 * memory. Returns FAN_NO_RANK if there is none, or if this node's disk has the record or is to have
 * it. */
static uint32_t choose_rank(const struct fan_node *node, const struct fan_flight *flight,
                            uint64_t now_ns)
{
    const struct fan_fetch_request *request = &flight->request;
    const struct fan_node_mount *mount = &node->mounts.mounts[request->mount];
    struct fan_replicas replicas = mount->replicas[request->pack];
    uint64_t hash = fan_cache_hash(flight->file, flight->block);
    if (node->ranks.transport == NULL)
        return FAN_NO_RANK;
    uint32_t keeper = fan_share_rank(mount, request);
    if (!flight->read_shared &&
        (fan_staged_has(mount, request) || fan_share_wants(&node->mounts, request)))
        return FAN_NO_RANK;
    if (keeper == FAN_NO_RANK)
        keeper = fan_share_memory_rank(mount, request);
    if (keeper != FAN_NO_RANK)
        replicas = (struct fan_replicas){&keeper, 1};
    return fan_ranks_choose(&node->ranks, &replicas, &flight->tried, hash, now_ns);
}

static bool is_damaged(const struct fan_node *node, const struct fan_flight *flight)
{
    return fan_mounts_is_damaged(&node->mounts, flight->request.mount, flight->request.record);
}

/* Asks the next replica; when none is left, the shared file system; then fails. Bytes that a
 * replica or this node found damaged came from the shared file system, so that is not read again.
 * Returns false if the cache has no room. */
bool fan_attempt_next(struct fan_node *node, struct fan_flight *flight, uint64_t now_ns)
{
    for (;;) {
        uint32_t rank = choose_rank(node, flight, now_ns);
        bool shared = rank == FAN_NO_RANK;
        if (shared)
            flight->unreadable |= is_damaged(node, flight);
        if (shared && (flight->read_shared || flight->unreadable)) {
            fan_attempt_fail(node, flight);
            return true;
        }
        bool wanted = flight->wants != NULL, replaces = flight->replaces && !wanted;
        uint64_t use = fan_entry_use(flight->file, flight->block, flight->part);
        uint32_t next_use = replaces ? fan_next_use_ahead(&node->orders, use, flight->request.bytes)
                                     : fan_next_use_of(&node->orders, use, wanted);
        uint32_t id = fan_eviction_begin_fill(
            &node->eviction,
            &(struct fan_fill){flight->file, flight->block, flight->request.bytes,
                               shared ? FAN_FROM_SHARED : FAN_FROM_RANK, flight->request.urgency,
                               next_use,
                               fan_share_is_in_memory(&node->mounts.mounts[flight->request.mount],
                                                      &flight->request),
                               flight->part, replaces});
        if (id == FAN_NO_FRAME)
            return false;
        if (shared ? read_shared(node, flight, id, now_ns) : ask(node, flight, rank, id, now_ns))
            return true;
    }
}

/* Continues a flight, behind those that wait for room already. A flight that no client wants makes
 * one attempt, and does not wait. */
void fan_attempt_go_on(struct fan_node *node, struct fan_flight *flight, uint64_t now_ns)
{
    bool in_vain = flight->wants == NULL && (flight->tried.count > 0 || flight->read_shared);
    if (!in_vain && node->flights.grounded.count == 0 && fan_attempt_next(node, flight, now_ns))
        return;
    if (flight->wants == NULL)
        end(node, flight, FAN_NO_FRAME);
    else
        fan_flight_ground(&node->flights, flight, now_ns);
}

/* Returns whether an error came from the rank itself, or from an answer that could not be
 * understood. Otherwise the rank was not reached. */
static bool is_answer(int error)
{
    return error == -EIO || error == -ENOENT || error == -EINVAL || error == -EPROTO;
}

/* Has clients of this node take a file of a planned dataset as it was listed, once all of it is
 * here: the rank that sent it has compared the original. */
static void note_original(struct fan_node *node, const struct fan_flight *flight)
{
    struct fan_node_mount *mount = &node->mounts.mounts[fan_cache_mount(flight->file)];
    uint64_t id = fan_cache_record(flight->file);
    if (fan_mount_record(mount, id)->stored_size <= FAN_CACHE_BLOCK_BYTES)
        fan_original_note(mount, id);
}

/* Handles the answer of a source to an attempt that was not given up. */
static void take_answer(struct fan_node *node, uint32_t id, int error, uint64_t now_ns)
{
    struct fan_frame *frame = &node->cache.frames[id];
    struct fan_flight *flight = frame->flight;
    bool shared = frame->source == FAN_FROM_SHARED;
    flight->frame = FAN_NO_FRAME;
    if (shared && is_damaged(node, flight)) { /* blocks of it in the cache were not checked */
        error = -EIO;
        fan_blockcache_forget(&node->cache, flight->file, &node->sessions.live);
    }
    if (error == 0) {
        if (!shared) {
            fan_add64(&node->stats.fetched_bytes, frame->bytes);
            note_original(node, flight);
            fan_copies_take(node, id);
        }
        frame->awaited = flight->awaited;
        fan_blockcache_fill_done(&node->cache, id);
        grant_flight(node, flight, id, now_ns);
        return;
    }
    if (!shared && !is_answer(error) && !fan_is_momentary(error))
        fan_ranks_lose(&node->ranks, frame->rank);
    flight->unreadable |= error == -EIO;
    fan_blockcache_release(&node->cache, id);
    fan_attempt_go_on(node, flight, now_ns);
}

void fan_attempt_ended(struct fan_node *node, const struct fan_transport_event *event,
                       uint64_t now_ns)
{
    uint32_t id = (uint32_t)event->token;
    if (id >= node->segment.entry_count || token_of(node, id) != event->token)
        return;
    struct fan_frame *frame = &node->cache.frames[id];
    if (event->kind == FAN_EVENT_FETCHED)
        fan_ranks_hear(&node->ranks, frame->rank, now_ns);
    if (frame->state == FAN_ENTRY_QUARANTINED) {
        fan_blockcache_release(&node->cache, id);
    } else if (frame->state == FAN_ENTRY_FILLING) {
        node->ranks.ranks[frame->rank].outstanding--;
        take_answer(node, id, event->kind == FAN_EVENT_FETCHED ? event->error : -ECANCELED, now_ns);
    }
}

static void shared_block_read(struct fan_node *node, struct fan_reading *reading)
{
    uint32_t id = ((const struct shared_reading *)reading)->frame;
    int error = reading->error;
    free(reading);
    if (node->cache.frames[id].state == FAN_ENTRY_QUARANTINED)
        fan_blockcache_release(&node->cache, id);
    else
        take_answer(node, id, error, fan_now_ns());
}

/* Gives up a read of the shared file system. If it has begun, it may still write to its frame. */
static void give_up_shared(struct fan_node *node, uint32_t id)
{
    struct fan_reading *reading = node->cache.frames[id].reading;
    if (fan_readers_take_back(&node->shared, reading)) {
        free(reading);
        fan_blockcache_release(&node->cache, id);
    } else {
        fan_blockcache_quarantine(&node->cache, id);
    }
}

/* Gives up an attempt. Its bytes may still come, so its frame goes to quarantine. */
struct fan_flight *fan_attempt_give_up(struct fan_node *node, uint32_t id)
{
    struct fan_frame *frame = &node->cache.frames[id];
    struct fan_flight *flight = frame->flight;
    frame->flight = NULL;
    flight->frame = FAN_NO_FRAME;
    if (frame->source == FAN_FROM_SHARED) {
        give_up_shared(node, id);
        return flight;
    }
    fan_blockcache_quarantine(&node->cache, id);
    node->ranks.ranks[frame->rank].outstanding--;
    if (!node->ranks.broken)
        node->ranks.transport->cancel(node->ranks.transport->context, token_of(node, id));
    return flight;
}

void fan_attempt_give_up_all(struct fan_node *node)
{
    for (struct fan_flight *flight; (flight = fan_flight_unground(&node->flights)) != NULL;)
        fan_attempt_fail(node, flight);
    for (unsigned source = 0; source < FAN_SOURCES; source++) {
        while (node->cache.filling[source].head != FAN_NO_FRAME)
            fan_attempt_fail(node, fan_attempt_give_up(node, node->cache.filling[source].head));
    }
}
