/*
 * The node daemon's core: one thread that fills the block cache for the clients of this node and
 * answers the other nodes. Python opens it after staging, tells it who has what, starts the thread,
 * adds and ends sessions as clients connect and go, and stops it at the end.
 *
 * All functions but `fan_node_start` .. `fan_node_stop` may be called while the thread runs.
 */
#ifndef FAN_NODE_NODE_H
#define FAN_NODE_NODE_H

#include <stdint.h>

#include "state/options.h"
#include "state/stats.h"

/* cffi: begin */
struct fan_node;

/* Attaches the job segment, its indexes and its staged packs; makes the cache. 0 or -errno. */
int fan_node_open(const struct fan_node_options *options, struct fan_node **node);

/* The memory file of the cache, owned by the node. */
int fan_node_cache_fd(const struct fan_node *node);

/* Names the ranks that have pack `pack` of mount `mount`; this rank is never asked. At most 16 of
 * them are tried for one block. Before the thread starts, or while it runs. 0 or -errno. */
int fan_node_set_replicas(struct fan_node *node, uint32_t mount, uint32_t pack,
                          const uint32_t *ranks, uint32_t count);

/* Sets the share that each rank keeps of the packs of a mount that are here in part (share.h): of
 * rank r from bounds[r] on, world_size + 1 of them, and no record of more than `largest` bytes; and
 * of the rest, by memory_bounds, the records that it keeps in its block cache for all, under the
 * policy belady alone. Before the thread starts. 0 or -errno. */
int fan_node_set_share(struct fan_node *node, uint32_t mount, const uint64_t *bounds,
                       uint64_t largest, const uint64_t *memory_bounds);

/* The same said record by record: `bytes` of rows, one for each record of the dataset, with a bit
 * for each rank in whole bytes, the lowest first; the rank keeps the record where it is set. */
int fan_node_set_keepers(struct fan_node *node, uint32_t mount, const uint8_t *rows, uint64_t bytes,
                         const uint64_t *memory_bounds);

/* Records of this rank's share, in the order in which they are to be brought to the local disk
 * ahead of their reading; others are passed over. 0 or -ENOMEM. */
int fan_node_fill_ahead(struct fan_node *node, uint32_t mount, const uint64_t *records,
                        uint64_t count);

/* The same of records that somebody waits for, before all others. A number, above 0, or -ENOMEM.
 * Whether what was given under a number is still being brought. */
int fan_node_fill_first(struct fan_node *node, uint32_t mount, const uint64_t *records,
                        uint64_t count);
int fan_node_is_filling(struct fan_node *node, uint32_t number);

/* The place of a block. DISK, CACHED: here. COMING: on its way. BEGUN: from now on. LATER: so many
 * are in line that there is no place for it. TO_KEEP: its record is to come to the disk
 * (fan_node_fill_first). NO_ROOM: in what hints may fill of the cache. NOWHERE: there is no such
 * block, or it is damaged. */
enum fan_reach {
    FAN_REACH_DISK = 0,
    FAN_REACH_CACHED = 1,
    FAN_REACH_COMING = 2,
    FAN_REACH_BEGUN = 3,
    FAN_REACH_LATER = 4,
    FAN_REACH_TO_KEEP = 5,
    FAN_REACH_NO_ROOM = 6,
    FAN_REACH_NOWHERE = 7
};

/* Has blocks of a mount's records be brought near, as for a hint; says where each is. What was
 * BEGUN and is so again did not come. */
void fan_node_reach(struct fan_node *node, uint32_t mount, const uint64_t *records,
                    const uint64_t *blocks, uint64_t count, uint32_t *reached);

/* Begins an order: the records of a mount that one loader will read, one after the other; they are
 * copied. They are brought ahead of it, in so far as there is room (prefetch.h); those of the order
 * `behind`, where that is not 0, before. Returns the order's id, from 1; -EINVAL, -ENOMEM. */
int64_t fan_node_order_begin(struct fan_node *node, uint32_t mount, const uint64_t *records,
                             uint64_t count, uint64_t behind);

/* The loader has read so many records by now, among them those that it is past: so it is seen how
 * fast it reads, and orders that are read fast are brought first (turns.h). 0, -EINVAL: there is no
 * such order. */
int fan_node_order_read(struct fan_node *node, uint64_t id, uint64_t read);

/* The loader is past the first `position` records; reads no more of an order, whose id is free from
 * then on. 0, -EINVAL: there is no such order. */
int fan_node_order_pass(struct fan_node *node, uint64_t id, uint64_t position);
int fan_node_order_end(struct fan_node *node, uint64_t id);

/* A session for a client that connected: its number, or -EAGAIN when all are taken. */
int fan_node_session_begin(struct fan_node *node, uint32_t pid);

/* The client is gone: its pins and open files are undone. */
void fan_node_session_end(struct fan_node *node, uint32_t session);

/* Starts the thread. transport: a `struct fan_transport *`, or NULL where there is no other rank.
 * From now on that is the thread's alone. 0 or -errno. */
int fan_node_start(struct fan_node *node, void *transport);

/* This rank needs nothing more: tells rank 0, goes on answering the others. 0: nobody needs this
 * one any more; else how many ranks it waits for, of which rank 0 alone knows them all. Call it
 * until then. */
int fan_node_finish(struct fan_node *node);

/* Whether `rank` was seen to be lost (or told so by the caller with `fan_node_lose`). */
int fan_node_is_lost(const struct fan_node *node, uint32_t rank);
void fan_node_lose(struct fan_node *node, uint32_t rank);

/* The time for which the oldest fetch under way has waited, and its rank; 0: none is under way. */
uint64_t fan_node_waited_ns(struct fan_node *node, uint32_t *rank);

/* The time for which the oldest read of the shared file system has waited; 0: none is under way. */
uint64_t fan_node_shared_waited_ns(struct fan_node *node);

/* Whether the last thing that came of `rank` is a deadline that passed. */
int fan_node_is_late(struct fan_node *node, uint32_t rank);

void fan_node_stats(const struct fan_node *node, struct fan_node_stats *stats);

/* Messages between daemons, for what is not the core's own business. Each arrives once and whole,
 * those of one rank to another in order, as long as both live. */
enum { FAN_NODE_MESSAGE_MAX_BYTES = 4194304 };

/* Copies `bytes` of a message for `rank`, which the thread sends. 0, -ENOMEM, -EMSGSIZE, -EINVAL
 * (no other rank), -EREMOTEIO: that rank is lost; -ESHUTDOWN: the thread does not run. */
int fan_node_post(struct fan_node *node, uint32_t rank, const void *message, uint64_t bytes);

/* Takes the next message that came into `to`: its length, with the sender in `rank`; -EAGAIN: none;
 * -ENOBUFS: longer than `room`, left where it is, its length in `needed`. */
int64_t fan_node_take(struct fan_node *node, void *to, uint64_t room, uint32_t *rank,
                      uint64_t *needed);

/* An eventfd, the node's, that is readable while there are messages to be taken; it need not be
 * read: taking the last one does that. */
int fan_node_message_fd(const struct fan_node *node);

/* Ends the thread and waits for it; clients that wait get EREMOTEIO, later ones find the cache
 * ended. Accepts NULL. 0 when nothing is outstanding and MPI may be finalised; -EBUSY when
 * something still was after a second. */
int fan_node_stop(struct fan_node *node);

/* Frees everything, the transport too; stops first where that was not done. Accepts NULL. Where
 * stopping answered -EBUSY all is left as it is: the transport may still write to the cache and
 * read from the packs, and the process is to end by _exit. Where a reader's thread hangs in a file
 * system, all that it may touch is left. */
void fan_node_close(struct fan_node *node);
/* cffi: end */

#endif
