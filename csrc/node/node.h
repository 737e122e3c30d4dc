/*
 * The node daemon's core: one thread that fills the block cache for the clients of this node and
 * answers the other nodes. Python opens it after staging, tells it which ranks have which packs,
 * starts the thread, begins and ends sessions when clients connect and leave, and stops it at the
 * end.
 *
 * All functions except `fan_node_start` and `fan_node_stop` may be called while the thread runs.
 */
#pragma once

#include <stdint.h>

#include "state/options.h"
#include "state/stats.h"

/* cffi: begin */
struct fan_node;

/* Attaches the job segment, its indexes and its staged packs; makes the cache. Returns 0 or
 * -errno. */
int fan_node_open(const struct fan_node_options *options, struct fan_node **node);

/* Makes the cache larger, by room for so many bytes of content or as far as it may grow. */
void fan_node_grow(struct fan_node *node, uint64_t content_bytes);

/* Returns the descriptor of the cache's memory file; the node owns it. */
int fan_node_cache_fd(const struct fan_node *node);

/* Sets the ranks that have pack `pack` of mount `mount`; this rank is never asked, even if listed.
 * For one block, the node asks at most 16 of them. Call it before the thread starts or while it
 * runs. Returns 0 or -errno. */
int fan_node_set_replicas(struct fan_node *node, uint32_t mount, uint32_t pack,
                          const uint32_t *ranks, uint32_t count);

/* Sets the share that each rank keeps of a mount whose packs are here in part (share.h). Rank r's
 * share begins at bounds[r]; there are world_size + 1 bounds. Records of more than `largest` bytes
 * belong to no share. memory_bounds divide the rest: the records that each rank keeps in its block
 * cache for all ranks, under policies by which blocks stay. copy_bytes: room of this rank's disk
 * for copies of other ranks' records. Call it before the thread starts. Returns 0 or -errno. */
int fan_node_set_share(struct fan_node *node, uint32_t mount, const uint64_t *bounds,
                       uint64_t largest, const uint64_t *memory_bounds, uint64_t copy_bytes);

/* Lists records of this rank's share that the node fetches to the local disk before they are read,
 * in this order; skips records outside the share. Returns 0 or -ENOMEM. */
int fan_node_fill_ahead(struct fan_node *node, uint32_t mount, const uint64_t *records,
                        uint64_t count);

/* Like fan_node_fill_ahead, for records that the caller waits for: they go before all others.
 * Returns a number above 0 for the list, or -ENOMEM. fan_node_is_filling: returns whether records
 * of the list with this number are still being fetched. */
int fan_node_fill_first(struct fan_node *node, uint32_t mount, const uint64_t *records,
                        uint64_t count);
int fan_node_is_filling(struct fan_node *node, uint32_t number);

/* Where a block is. DISK, CACHED: on this node. COMING: on its way. BEGUN: this call began to fetch
 * it. LATER: too many blocks are waiting already. TO_KEEP: its record belongs on the local disk
 * (use fan_node_fill_first). NO_ROOM: the part of the cache that hints may fill is full. NOWHERE:
 * there is no such block, or it is damaged. */
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

/* Fetches blocks of a mount's records to this node, like a hint, and sets `reached` for each. A
 * block that is BEGUN for a second time did not arrive the first time. */
void fan_node_reach(struct fan_node *node, uint32_t mount, const uint64_t *records,
                    const uint64_t *blocks, uint64_t count, uint32_t *reached);

/* Begins an order: the records of a mount that one loader will read, in that order. Copies the
 * list. The node fetches the records ahead of the loader as far as there is room (prefetch.h),
 * after those of the order `behind`, unless that is 0. Returns the order's id, from 1 on; -EINVAL
 * if there is no such mount or record; -ENOMEM. */
int64_t fan_node_order_begin(struct fan_node *node, uint32_t mount, const uint64_t *records,
                             uint64_t count, uint64_t behind);

/* Reports how many records the loader has read by now, including those of fan_node_order_pass. The
 * node measures from this how fast the loader reads, and fetches first for the fastest (turns.h).
 * Returns 0, or -EINVAL if there is no such order. */
int fan_node_order_read(struct fan_node *node, uint64_t id, uint64_t read);

/* fan_node_order_pass: the loader needs the first `position` records no more. fan_node_order_end:
 * the loader reads no more of the order; its id ends. Return 0, or -EINVAL if there is no such
 * order. */
int fan_node_order_pass(struct fan_node *node, uint64_t id, uint64_t position);
int fan_node_order_end(struct fan_node *node, uint64_t id);

/* Begins a session for a client that connected. Returns its number, -EAGAIN if all are in use, or
 * -ENOMEM. */
int fan_node_session_begin(struct fan_node *node, uint32_t pid);

/* Ends the session of a client that has ended, with its pins and open files. */
void fan_node_session_end(struct fan_node *node, uint32_t session);

/* Starts the thread. transport: a `struct fan_transport *`, or NULL if there is no other rank; from
 * now on only the thread uses it. Returns 0 or -errno. */
int fan_node_start(struct fan_node *node, void *transport);

/* Declares that this rank needs nothing more: tells rank 0, and goes on answering other ranks.
 * Returns the number of ranks for which it still waits (only rank 0 knows all of them), or 0 if no
 * rank needs this one any more. Call it until it returns 0. */
int fan_node_finish(struct fan_node *node);

/* Returns whether `rank` counts as lost, because the node found it so or the caller called
 * `fan_node_lose`. */
int fan_node_is_lost(const struct fan_node *node, uint32_t rank);
void fan_node_lose(struct fan_node *node, uint32_t rank);

/* Returns how long the oldest fetch in progress has waited, and for which rank; 0 if there is
 * none. */
uint64_t fan_node_waited_ns(struct fan_node *node, uint32_t *rank);

/* Returns how long the oldest read of the shared file system has waited; 0 if there is none. */
uint64_t fan_node_shared_waited_ns(struct fan_node *node);

/* Returns whether `rank` let a deadline pass and has not been heard from since. */
int fan_node_is_late(struct fan_node *node, uint32_t rank);

void fan_node_stats(const struct fan_node *node, struct fan_node_stats *stats);

/* Messages between daemons. The core does not interpret them. As long as both ranks live, each
 * message arrives once and whole, and messages from one rank to another arrive in order. */
enum { FAN_NODE_MESSAGE_MAX_BYTES = 4194304 };

/* Copies a message of `bytes` for `rank`; the thread sends it. Returns 0, -ENOMEM, -EMSGSIZE,
 * -EINVAL (no other rank), -EREMOTEIO: the rank is lost; -ESHUTDOWN: the thread does not run. */
int fan_node_post(struct fan_node *node, uint32_t rank, const void *message, uint64_t bytes);

/* Copies the next received message to `to` and removes it. Returns its length and sets `rank` to
 * the sender; -EAGAIN: there is none; -ENOBUFS: it is longer than `room`; it stays, and `needed` is
 * its length. */
int64_t fan_node_take(struct fan_node *node, void *to, uint64_t room, uint32_t *rank,
                      uint64_t *needed);

/* Returns an eventfd of the node that is readable while there are messages to take. Do not read it:
 * taking the last message resets it. */
int fan_node_message_fd(const struct fan_node *node);

/* Ends the thread and waits for it. Waiting clients get EREMOTEIO; later ones find that the cache
 * has ended. Accepts NULL. Returns 0 if nothing is outstanding, so MPI may be finalised; -EBUSY if
 * something still is after a second. */
int fan_node_stop(struct fan_node *node);

/* Frees everything, including the transport; stops the node first if needed. Accepts NULL. If
 * stopping returned -EBUSY it frees nothing: the transport may still write to the cache and read
 * from the packs, and the process must end by _exit. If a reader's thread hangs in a file system,
 * the memory that it may use is not freed. */
void fan_node_close(struct fan_node *node);
/* cffi: end */
