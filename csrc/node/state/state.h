/*
 * The state of the node daemon's core. The thread holds `lock` while it works, and so does every
 * function of node.h in other threads; none of them waits for a disk or a rank while it holds the
 * lock.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "../cache/blockcache.h"
#include "../cache/eviction.h"
#include "../cache/listing.h"
#include "../wants/flights.h"
#include "../foresight/hint_line.h"
#include "../ranks/messages.h"
#include "../storage/mounts.h"
#include "options.h"
#include "../foresight/orders.h"
#include "../ranks/ranks.h"
#include "../wants/replies.h"
#include "../storage/readers.h"
#include "../wants/sessions.h"
#include "../foresight/share_fill.h"
#include "stats.h"
#include "../foresight/streams.h"
#include "../machine/transport.h"

/* callers: how many threads in functions of node.h wait for the lock; the thread then lets them
 * have it. stopping: the thread must end. drained: the thread ended with nothing outstanding. */
struct fan_node {
    struct fan_node_options options;
    struct fan_segment segment;
    struct fan_blockcache cache;
    struct fan_eviction eviction;
    struct fan_mounts mounts;
    struct fan_sessions sessions;
    struct fan_flights flights;
    struct fan_streams streams;
    struct fan_hints hints;
    struct fan_ranks ranks;
    struct fan_messages messages;
    struct fan_replies replies;
    struct fan_readers disk;   /* read packs that are staged here, for other ranks */
    struct fan_readers shared; /* read the shared file system, for this node */
    struct fan_share_fill share_fill;
    struct fan_orders orders;
    uint32_t disk_ahead;         /* pieces that `disk` reads before any client wants them */
    uint32_t copies_writing;     /* records that `disk` writes (../fetch/copies.c) */
    struct fan_node_stats stats; /* all counts are relaxed atomics */
    pthread_mutex_t lock;
    pthread_t thread;
    uint32_t callers;
    uint32_t stopping;
    bool running;
    bool drained;
};

/* Takes the lock as a caller from outside of the thread; fan_node_leave releases it. */
void fan_node_enter(struct fan_node *node);
void fan_node_leave(struct fan_node *node);

/* Wakes the thread. */
void fan_node_ring(struct fan_node *node);
