#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>

#include "fetch/attempts.h"
#include "fetch/deadlines.h"
#include "prefetch/copy_ahead.h"
#include "prefetch/prefetch.h"
#include "thread.h"
#include "state/state.h"
#include "fetch/new_wants.h"
#include "ranks/job_end.h"
#include "wants/replies.h"
#include "serve/requests.h"
#include "machine/shared.h"

enum {
    EVENTS = 32,
    POLLS_MAX = 8,                  /* after this many polls a turn ends, even if more arrives */
    SPIN_NS = 200000,               /* after an event: the time until the first sleep */
    SPIN_OUTSTANDING_NS = 20000000, /* while bytes are on their way: a block takes less */
    /* A yield that takes longer has let another thread compute. Less is taken by clients and
     * daemons on this core: while they spin, the kernel moves one of them to an idle core. */
    CROWDED_YIELD_NS = 200000,
    CROWDED_NS = 50000000,      /* for so long after it, this thread does not spin */
    TURNS_AWAKE = 3,            /* turns before a sleep: the next poll may find more */
    SLEEP_SHARE = 8,            /* sleeps for this part of the time since the last event */
    RUNG_SHARE = 2,             /* or for this part, if all other ranks ring */
    SHORTEST_SLEEP_NS = 100000, /* the shortest and the longest sleep then */
    RUNG_SLEEP_NS = 600000000,
    QUIET_SHARE = 1000,        /* if some do not ring: for this part of that time */
    QUIET_SLEEP_NS = 50000000, /* longest sleep then */
    ALONE_SLEEP_NS = 1000000000,
    TIMER_SLACK_NS = 1000, /* by default the kernel lengthens sleeps by 50 us */
    DRAIN_NS = 1000000000,
    DRAIN_PAUSE_NS = 1000000
};

static void handle(struct fan_node *node, const struct fan_transport_event *event, uint64_t now_ns)
{
    switch (event->kind) {
    case FAN_EVENT_FETCHED:
    case FAN_EVENT_CANCELLED:
        fan_attempt_ended(node, event, now_ns);
        break;
    case FAN_EVENT_REQUEST:
        fan_ranks_hear(&node->ranks, event->rank, now_ns);
        fan_request_answer(node, event, now_ns);
        break;
    case FAN_EVENT_NOTICE:
        fan_ranks_hear(&node->ranks, event->rank, now_ns);
        fan_job_end_notice(&node->ranks, event);
        break;
    case FAN_EVENT_SENT:
        fan_reply_sent(&node->replies, event->token);
        break;
    case FAN_EVENT_MESSAGE:
        fan_messages_come(&node->messages, &node->ranks, event, now_ns);
        break;
    }
}

/* Receives all events that are there. Returns whether there were any. */
static bool receive(struct fan_node *node, uint64_t now_ns)
{
    struct fan_transport *transport = node->ranks.transport;
    struct fan_transport_event events[EVENTS];
    int count = EVENTS;
    bool any = false;
    for (unsigned i = 0; i < POLLS_MAX && count == EVENTS; i++) {
        if (transport == NULL || node->ranks.broken)
            break;
        count = transport->poll(transport->context, events, EVENTS);
        if (count < 0)
            fan_ranks_lose_all(&node->ranks);
        for (int j = 0; j < count; j++)
            handle(node, &events[j], now_ns);
        any |= count > 0;
    }
    return any;
}

static void publish(struct fan_node *node)
{
    struct fan_node_stats *stats = &node->stats;
    fan_put64(&stats->evicted, node->cache.evicted);
    fan_put64(&stats->quarantined, node->cache.quarantined[FAN_FROM_RANK] +
                                       node->cache.quarantined[FAN_FROM_SHARED]);
    fan_put64(&stats->outstanding, node->cache.filling[FAN_FROM_RANK].count +
                                       node->cache.filling[FAN_FROM_SHARED].count);
    fan_put64(&stats->resident_bytes, node->cache.resident_bytes);
    fan_put64(&stats->peak_resident_bytes, node->cache.peak_resident_bytes);
    fan_put64(&stats->filling_ahead, !fan_share_fill_is_done(&node->share_fill));
    fan_put64(&stats->sessions, node->sessions.live.count);
    fan_put64(&stats->lost_ranks, node->ranks.lost_count);
}

bool fan_node_turn(struct fan_node *node, uint64_t now_ns)
{
    bool any = receive(node, now_ns);
    any |= fan_readers_advance(&node->disk, node);
    any |= fan_readers_advance(&node->shared, node);
    any |= fan_new_wants_start(node, now_ns);
    if (!node->ranks.finishing) { /* otherwise no client would read the blocks */
        any |= fan_hints_advance(node, now_ns);
        any |= fan_prefetch_advance(node, now_ns);
    }
    /* Last, when all that is wanted has begun. */
    any |= fan_share_fill_advance(&node->share_fill, now_ns);
    if (!node->ranks.finishing)
        any |= fan_copy_ahead_advance(node, now_ns);
    any |= fan_next_use_advance(&node->orders);
    any |= fan_messages_send(&node->messages, &node->ranks);
    fan_deadlines_advance(node, now_ns);
    fan_job_end_advance(&node->ranks, node->flights.counts[FAN_AHEAD] > 0, now_ns);
    any |= fan_eviction_advance(&node->eviction, now_ns);
    publish(node);
    return any;
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

/* Returns how long a message of another rank may have to wait: the longer, the longer the other
 * ranks have been quiet. If they ring, it need not wait, but a ring may come before its message or
 * be lost, and MPI moves many bytes in steps without rings. Otherwise, after a minute without
 * messages the thread wakes 20 times a second. */
static uint64_t unheard_ns(const struct fan_node *node, uint64_t idle_ns)
{
    const struct fan_transport *transport = node->ranks.transport;
    if (transport->is_rung(transport->context))
        return earlier(RUNG_SLEEP_NS, SHORTEST_SLEEP_NS + idle_ns / RUNG_SHARE);
    uint64_t short_ns =
        earlier((uint64_t)node->options.idle_sleep_us * 1000, idle_ns / SLEEP_SHARE);
    uint64_t long_ns = earlier(QUIET_SLEEP_NS, idle_ns / QUIET_SHARE);
    return short_ns > long_ns ? short_ns : long_ns;
}

/* Returns how long the thread may sleep unless a process of this node or another rank rings. */
static uint64_t sleep_ns(const struct fan_node *node, uint64_t now_ns, uint64_t idle_ns)
{
    uint64_t limit_ns = ALONE_SLEEP_NS;
    if (node->ranks.transport != NULL && !node->ranks.broken)
        limit_ns = unheard_ns(node, idle_ns);
    uint64_t next_ns = earlier(fan_deadlines_next_ns(node), fan_job_end_next_ns(&node->ranks));
    if (next_ns <= now_ns)
        return 0;
    return earlier(limit_ns, next_ns - now_ns);
}

/* Lets other threads compute for a moment. Returns whether one did, so that this one came back
 * late: then the cores are busy, and a thread that sleeps is woken sooner than one that yields. */
static bool yield_is_slow(void)
{
    uint64_t before_ns = fan_now_ns();
    sched_yield();
    return fan_now_ns() - before_ns > CROWDED_YIELD_NS;
}

/* Sleeps until the doorbell rings. `seen`: its value before the turn that found nothing to do.
 * Returns whether it rang. */
static bool sleep_until_rung(struct fan_node *node, uint32_t seen, uint64_t limit_ns)
{
    struct fan_cache_header *header = node->segment.header;
    fan_total_store(&header->sleeping, 1);
    if (limit_ns > 0 && fan_total_load(&header->doorbell) == seen)
        fan_futex_wait(&header->doorbell, seen, limit_ns);
    fan_total_store(&header->sleeping, 0);
    return fan_total_load(&header->doorbell) != seen;
}

/* Lets a caller of node.h that waits for the lock take it before the thread does. */
static void let_callers_in(struct fan_node *node)
{
    for (unsigned i = 0; i < 1000 && fan_acquire32(&node->callers) != 0; i++)
        sched_yield();
}

/* Returns until when after an event the thread looks again and again instead of sleeping. */
static uint64_t spin_ns(const struct fan_node *node)
{
    bool demands = node->flights.counts[FAN_DEMAND] > 0;
    bool waits =
        (demands && node->cache.filling[FAN_FROM_RANK].count > 0) || node->replies.under_way > 0;
    return waits ? SPIN_OUTSTANDING_NS : SPIN_NS;
}

/* Rings other ranks. again: those that owe an answer, too. */
static void ring(struct fan_node *node, bool again, bool sleeps)
{
    const struct fan_transport *transport = node->ranks.transport;
    if (transport == NULL)
        return;
    if (again && node->cache.filling[FAN_FROM_RANK].count > 0)
        transport->ring_again(transport->context, sleeps);
    else
        transport->ring(transport->context, sleeps);
}

static void serve(struct fan_node *node)
{
    uint64_t busy_ns = 0, crowded_ns = 0;
    uint32_t last_seen = 0;
    unsigned empty_turns = 0;
    bool overslept = false; /* nothing rang before the last sleep was over */
    while (fan_acquire32(&node->stopping) == 0) {
        uint32_t seen = fan_total_load(&node->segment.header->doorbell);
        uint64_t now_ns = fan_now_ns();
        bool crowded = now_ns < crowded_ns;
        pthread_mutex_lock(&node->lock);
        bool any = fan_node_turn(node, now_ns);
        ring(node, overslept, crowded);
        if (any || seen != last_seen) /* the message of a ring may come a little later */
            busy_ns = now_ns;
        uint64_t idle_ns = now_ns - busy_ns;
        bool spins = !crowded && idle_ns < spin_ns(node);
        uint64_t limit_ns = sleep_ns(node, now_ns, idle_ns);
        pthread_mutex_unlock(&node->lock);
        let_callers_in(node);
        last_seen = seen;
        overslept = false;
        empty_turns = any || spins ? 0 : empty_turns + 1;
        if (spins && yield_is_slow())
            crowded_ns = now_ns + CROWDED_NS;
        if (empty_turns < TURNS_AWAKE)
            continue;
        empty_turns = 0;
        overslept = !sleep_until_rung(node, seen, limit_ns);
    }
}

/* Returns whether the transport has nothing more to write or send. */
static bool is_quiet(const struct fan_node *node)
{
    if (node->ranks.transport == NULL)
        return true;
    return !node->ranks.broken && node->cache.quarantined[FAN_FROM_RANK] == 0 &&
           !fan_messages_left(&node->messages) &&
           node->ranks.transport->pending(node->ranks.transport->context) == 0;
}

static bool is_drained(struct fan_node *node)
{
    return is_quiet(node) && fan_readers_have_ended(&node->disk) &&
           fan_readers_have_ended(&node->shared);
}

/* Waits until readers and the transport have nothing more to write or send. */
static void drain(struct fan_node *node)
{
    uint64_t end_ns = fan_now_ns() + DRAIN_NS;
    fan_put32(&node->mounts.ending, 1);
    fan_readers_end(&node->disk);
    fan_readers_end(&node->shared);
    while (!node->ranks.broken && !is_drained(node) && fan_now_ns() < end_ns) {
        const struct timespec pause = {.tv_nsec = DRAIN_PAUSE_NS};
        bool any = fan_messages_send(&node->messages, &node->ranks);
        any |= receive(node, fan_now_ns());
        any |= fan_readers_advance(&node->disk, node);
        any |= fan_readers_advance(&node->shared, node);
        ring(node, false, false);
        if (!any)
            nanosleep(&pause, NULL);
    }
    node->drained = is_quiet(node);
    publish(node);
}

void *fan_node_thread(void *argument)
{
    struct fan_node *node = argument;
    pthread_setname_np(pthread_self(), "fanstore-node");
    prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS, 0, 0, 0);
    if (node->ranks.transport != NULL) /* if rings are not heard, it looks by the clock */
        node->ranks.transport->listen(node->ranks.transport->context,
                                      &node->segment.header->doorbell);
    serve(node);
    fan_messages_refuse(&node->messages);
    pthread_mutex_lock(&node->lock);
    fan_total_store(&node->segment.header->state, FAN_JOB_ENDED);
    fan_attempt_give_up_all(node);
    fan_sessions_fail_all(&node->sessions);
    drain(node);
    pthread_mutex_unlock(&node->lock);
    return NULL;
}
