#include "node.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "fetch/deadlines.h"
#include "prefetch/prefetch.h"
#include "thread.h"
#include "state/state.h"
#include "machine/shared.h"
#include "machine/start_thread.h"

enum { WORLD_MAX = 1 << 20 };

static bool is_for_nodes(uint32_t policy)
{
    return policy < FAN_POLICY_COUNT || policy == FAN_POLICY_BELADY;
}

static int check_options(const struct fan_node_options *options)
{
    bool sane = options->job_segment != NULL && is_for_nodes(options->policy) &&
                options->deadline_ns > 0 && options->shared_deadline_ns > 0 &&
                options->idle_sleep_us > 0 && options->world_size > 0 &&
                options->world_size <= WORLD_MAX && options->rank < options->world_size;
    return sane ? 0 : -EINVAL;
}

/* Returns to how many bytes of content the cache may grow: all packs together. The cache of a rank
 * among others does not grow, because no other job uses it. */
static uint64_t most_bytes(const struct fan_node *node)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < node->mounts.count && node->options.world_size == 1; i++) {
        const struct fan_node_mount *mount = &node->mounts.mounts[i];
        for (uint32_t pack = 0; pack < mount->pack_count; pack++)
            bytes += mount->index.packs[pack].file_bytes;
    }
    return fan_mounts_in_granules(&node->mounts, bytes);
}

static int build(struct fan_node *node)
{
    const struct fan_node_options *options = &node->options;
    int rc = fan_mounts_init(&node->mounts, options->job_segment);
    if (rc == 0)
        rc = fan_segment_init(&node->segment,
                              fan_mounts_in_granules(&node->mounts, options->cache_bytes),
                              most_bytes(node), options->policy);
    if (rc == 0)
        rc = fan_sessions_init(&node->sessions, &node->segment);
    if (rc == 0)
        rc = fan_ranks_init(&node->ranks, options->rank, options->world_size, options->deadline_ns);
    if (rc == 0)
        rc = fan_messages_init(&node->messages);
    if (rc == 0)
        rc = fan_blockcache_init(&node->cache, &node->segment, (enum fan_policy)options->policy);
    return rc;
}

static void free_all(struct fan_node *node)
{
    fan_flights_fini(&node->flights);
    fan_share_fill_fini(&node->share_fill);
    fan_orders_fini(&node->orders);
    fan_readers_fini(&node->disk);
    fan_readers_fini(&node->shared);
    fan_blockcache_fini(&node->cache);
    fan_messages_fini(&node->messages);
    fan_ranks_fini(&node->ranks);
    fan_sessions_fini(&node->sessions);
    fan_segment_fini(&node->segment);
    fan_mounts_fini(&node->mounts);
    pthread_mutex_destroy(&node->lock);
    free(node);
}

static void ring(void *node)
{
    fan_node_ring(node);
}

int fan_node_open(const struct fan_node_options *options, struct fan_node **made)
{
    int rc = check_options(options);
    if (rc != 0)
        return rc;
    struct fan_node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return -ENOMEM;
    node->options = *options;
    pthread_mutex_init(&node->lock, NULL);
    fan_readers_init(&node->disk, ring, node);
    fan_readers_init(&node->shared, ring, node);
    rc = build(node);
    node->mounts.fetch_object = options->fetch_object;
    if (options->fetch_object != NULL)
        fan_readers_widen(&node->shared);
    node->options.job_segment = NULL; /* it belongs to the caller */
    if (rc != 0) {
        free_all(node);
        return rc;
    }
    fan_eviction_init(&node->eviction, &node->cache, &node->sessions.live);
    node->replies = (struct fan_replies){.ranks = &node->ranks, .cache = &node->cache};
    fan_share_fill_init(&node->share_fill, &node->mounts, &node->shared, &node->cache,
                        &node->sessions.live);
    node->orders.uses = (struct fan_next_uses){
        .cache = &node->cache, .mounts = &node->mounts, .own_rank = options->rank};
    node->stats.cache_bytes = fan_segment_used(&node->segment);
    node->drained = true;
    *made = node;
    return 0;
}

void fan_node_grow(struct fan_node *node, uint64_t content_bytes)
{
    fan_node_enter(node);
    fan_blockcache_grow(&node->cache, fan_mounts_in_granules(&node->mounts, content_bytes));
    fan_put64(&node->stats.cache_bytes, fan_segment_used(&node->segment));
    fan_node_leave(node);
}

int fan_node_cache_fd(const struct fan_node *node)
{
    return node->segment.fd;
}

int fan_node_set_replicas(struct fan_node *node, uint32_t mount, uint32_t pack,
                          const uint32_t *ranks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ranks[i] >= node->options.world_size)
            return -EINVAL;
    }
    fan_node_enter(node);
    int rc = fan_mounts_set_replicas(&node->mounts, mount, pack, ranks, count);
    fan_node_leave(node);
    return rc;
}

int fan_node_set_share(struct fan_node *node, uint32_t mount, const uint64_t *bounds,
                       uint64_t largest, const uint64_t *memory_bounds, uint64_t copy_bytes)
{
    if (node->running || mount >= node->mounts.count ||
        node->mounts.mounts[mount].share.starts != NULL)
        return -EINVAL;
    struct fan_share *share = &node->mounts.mounts[mount].share;
    share->own_rank = node->options.rank;
    share->world_size = node->options.world_size;
    share->largest_bytes = largest;
    share->copy_bytes = copy_bytes;
    return fan_share_init(&node->mounts.mounts[mount], bounds, memory_bounds);
}

int fan_node_fill_ahead(struct fan_node *node, uint32_t mount, const uint64_t *records,
                        uint64_t count)
{
    fan_node_enter(node);
    int rc = fan_share_fill_add(&node->share_fill, mount, records, count, FAN_AHEAD);
    fan_put64(&node->stats.filling_ahead, !fan_share_fill_is_done(&node->share_fill));
    fan_node_leave(node);
    fan_node_ring(node);
    return rc < 0 ? rc : 0;
}

/* Returns whether a mount has what an entry of an order names. */
static bool has_entry(const struct fan_node_mount *mount, uint64_t entry)
{
    uint64_t record = fan_entry_record(entry), piece = entry >> FAN_ENTRY_PIECE_SHIFT;
    if (record >= mount->index.record_count)
        return false;
    return piece == 0 ||
           (piece - 1) * FAN_PIECE_BYTES < fan_mount_record(mount, record)->stored_size;
}

static bool has_entries(const struct fan_node *node, uint32_t mount, const uint64_t *records,
                        uint64_t count)
{
    uint64_t at = 0;
    if (mount >= node->mounts.count)
        return false;
    while (at < count && has_entry(&node->mounts.mounts[mount], records[at]))
        at++;
    return at == count;
}

int64_t fan_node_order_begin(struct fan_node *node, uint32_t mount, const uint64_t *records,
                             uint64_t count, uint64_t behind)
{
    if (!has_entries(node, mount, records, count)) /* another job may have told of them */
        return -EINVAL;
    struct fan_order *order = fan_order_make(mount, records, count, FAN_PREFETCH_RECORDS);
    if (order == NULL)
        return -ENOMEM;
    fan_node_enter(node);
    uint64_t id = fan_prefetch_begin(node, order, behind);
    fan_node_leave(node);
    fan_node_ring(node);
    return (int64_t)id;
}

int fan_node_order_read(struct fan_node *node, uint64_t id, uint64_t read)
{
    fan_node_enter(node);
    int rc = fan_prefetch_read(node, id, read, fan_now_ns());
    fan_node_leave(node);
    return rc;
}

/* Gives the lock to the thread if it waits for it: otherwise this caller, which has just released
 * the lock, would get it again first. */
static void let_thread_in(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
}

int fan_node_order_pass(struct fan_node *node, uint64_t id, uint64_t position)
{
    for (;; let_thread_in()) {
        fan_node_enter(node);
        int rc = fan_prefetch_pass(node, id, position);
        fan_node_leave(node);
        if (rc == -EAGAIN)
            continue;
        fan_node_ring(node);
        return rc;
    }
}

int fan_node_order_end(struct fan_node *node, uint64_t id)
{
    for (;; let_thread_in()) {
        fan_node_enter(node);
        int rc = fan_prefetch_end(node, id);
        fan_node_leave(node);
        if (rc == -EAGAIN)
            continue;
        fan_node_ring(node); /* orders may wait for the room that this one frees */
        return rc;
    }
}

int fan_node_session_begin(struct fan_node *node, uint32_t pid)
{
    fan_node_enter(node);
    int session = fan_session_open(&node->sessions, pid);
    fan_node_leave(node);
    return session;
}

void fan_node_session_end(struct fan_node *node, uint32_t session)
{
    fan_node_enter(node);
    fan_session_close(&node->sessions, &node->eviction, session);
    fan_node_leave(node);
    fan_node_ring(node);
}

static bool fits(const struct fan_node *node, const struct fan_transport *transport)
{
    return transport == NULL || (transport->rank == node->options.rank &&
                                 transport->world_size == node->options.world_size);
}

/* Sets room of the cache apart for the records that this rank's memory keeps. */
static int keep_room(struct fan_node *node)
{
    uint64_t granules = 0;
    for (uint32_t mount = 0; mount < node->mounts.count; mount++)
        granules += fan_share_memory_granules(&node->mounts, mount);
    return fan_blockcache_keep(&node->cache, granules);
}

int fan_node_start(struct fan_node *node, void *transport)
{
    if (node->running || !fits(node, transport))
        return -EINVAL;
    int rc = keep_room(node);
    if (rc != 0)
        return rc;
    node->ranks.transport = transport;
    node->drained = false;
    fan_share_fill_check_kept(
        &node->share_fill); /* records for which memory is short are checked when they are read */
    fan_put64(&node->stats.filling_ahead, !fan_share_fill_is_done(&node->share_fill));
    fan_messages_admit(&node->messages);
    rc = fan_start_thread(&node->thread, fan_node_thread, node);
    node->running = rc == 0;
    if (rc != 0) {
        fan_messages_refuse(&node->messages);
        node->ranks.transport = NULL;
        node->drained = true;
    }
    return rc;
}

int fan_node_finish(struct fan_node *node)
{
    fan_node_enter(node);
    if (!node->ranks.finishing)
        node->ranks.finishing_ns = fan_now_ns();
    node->ranks.finishing = true;
    uint32_t left = node->ranks.transport != NULL ? fan_ranks_unfinished(&node->ranks) : 0;
    if (left == 0 && node->running && node->ranks.transport != NULL && !node->ranks.broken &&
        !node->ranks.all_finished)
        left = 1; /* the other ranks were not told yet */
    fan_node_leave(node);
    fan_node_ring(node);
    return (int)left;
}

int fan_node_is_lost(const struct fan_node *node, uint32_t rank)
{
    return fan_ranks_is_lost(&node->ranks, rank);
}

void fan_node_lose(struct fan_node *node, uint32_t rank)
{
    fan_node_enter(node);
    fan_ranks_lose(&node->ranks, rank);
    fan_node_leave(node);
    fan_node_ring(node);
}

static uint64_t waited_ns(struct fan_node *node, enum fan_source source, uint32_t *rank)
{
    fan_node_enter(node);
    uint64_t waited_ns = fan_deadlines_waited_ns(node, source, rank);
    fan_node_leave(node);
    return waited_ns;
}

uint64_t fan_node_waited_ns(struct fan_node *node, uint32_t *rank)
{
    return waited_ns(node, FAN_FROM_RANK, rank);
}

uint64_t fan_node_shared_waited_ns(struct fan_node *node)
{
    uint32_t none;
    return waited_ns(node, FAN_FROM_SHARED, &none);
}

int fan_node_is_late(struct fan_node *node, uint32_t rank)
{
    fan_node_enter(node);
    bool late = rank < node->ranks.world_size && node->ranks.ranks[rank].suspect;
    fan_node_leave(node);
    return late;
}

void fan_node_stats(const struct fan_node *node, struct fan_node_stats *stats)
{
    const struct fan_mounts_counts *counts = &node->mounts.counts;
    const uint64_t *from = (const uint64_t *)&node->stats;
    uint64_t *to = (uint64_t *)stats;
    for (size_t i = 0; i < sizeof(*stats) / sizeof(*to); i++)
        to[i] = fan_relaxed64(&from[i]);
    stats->shared_reads = fan_relaxed64(&counts->shared_reads);
    stats->shared_bytes = fan_relaxed64(&counts->shared_bytes);
    stats->kept_records = fan_relaxed64(&counts->kept_records);
    stats->kept_bytes = fan_relaxed64(&counts->kept_bytes);
    stats->full_disks = fan_relaxed64(&counts->full_disks);
    stats->damaged_records = fan_relaxed64(&counts->damaged_records);
    stats->mended_records = fan_relaxed64(&counts->mended_records);
    stats->failures = fan_relaxed64(&node->sessions.failures);
    stats->served = fan_relaxed64(&node->replies.served);
    stats->served_bytes = fan_relaxed64(&node->replies.served_bytes);
    stats->refused = fan_relaxed64(&node->replies.refused);
}

_Static_assert((int)FAN_MESSAGE_MAX_BYTES == (int)FAN_NODE_MESSAGE_MAX_BYTES,
               "one limit, for callers and for transports");

int fan_node_post(struct fan_node *node, uint32_t rank, const void *message, uint64_t bytes)
{
    int rc = fan_messages_post(&node->messages, &node->ranks, rank, message, bytes);
    if (rc == 0)
        fan_node_ring(node);
    return rc;
}

int64_t fan_node_take(struct fan_node *node, void *to, uint64_t room, uint32_t *rank,
                      uint64_t *needed)
{
    return fan_messages_take(&node->messages, to, room, rank, needed);
}

int fan_node_message_fd(const struct fan_node *node)
{
    return node->messages.fd;
}

int fan_node_stop(struct fan_node *node)
{
    if (node == NULL)
        return 0;
    if (node->running) {
        fan_release32(&node->stopping, 1);
        fan_node_ring(node);
        pthread_join(node->thread, NULL);
        node->running = false;
    }
    fan_release32(&node->segment.header->state, FAN_JOB_ENDED);
    fan_sessions_fail_all(&node->sessions);
    return node->drained ? 0 : -EBUSY;
}

void fan_node_close(struct fan_node *node)
{
    if (node == NULL || fan_node_stop(node) != 0)
        return;
    if (node->ranks.transport != NULL)
        node->ranks.transport->close(node->ranks.transport->context);
    if (fan_readers_have_ended(&node->disk) && fan_readers_have_ended(&node->shared))
        free_all(node);
}
