/*
 * Fetches records before programs read them, in the order in which they will read them (NoPFS,
 * section 5.1). An order is the list of records that one loader reads in one epoch. All orders
 * together may fetch ahead as much as fits in a part of the cache; a record stays there until it is
 * used, or until the loader is past it. For each next record the turn goes to the order whose
 * loader needs its record first (turns.h); each order may have a little ahead, however much the
 * others have. Records on this node's disk are read into memory. Long records come block by
 * block, and only while the clients of the mount read such records in sequence.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../foresight/orders.h"

/* How many records of an order may be ahead, even if they are small. */
enum { FAN_PREFETCH_RECORDS = 65536 };

struct fan_node;

/* Begins an order. behind: the id of an order that comes first, or 0. Returns the order's id, from
 * 1 on. */
uint64_t fan_prefetch_begin(struct fan_node *node, struct fan_order *order, uint64_t behind);

/* Records that the loader has read `read` records in all. Returns 0 or -EINVAL. */
int fan_prefetch_read(struct fan_node *node, uint64_t id, uint64_t read, uint64_t now_ns);

/* pass: the loader is past the first `position` records. end: the loader reads no more of the
 * order. Blocks that were fetched for these records are no longer protected. Return 0; -EINVAL:
 * there is no such order; -EAGAIN: the work is not finished, call again. */
int fan_prefetch_pass(struct fan_node *node, uint64_t id, uint64_t position);
int fan_prefetch_end(struct fan_node *node, uint64_t id);

/* Starts the fetches that may start. Returns whether there were any. */
bool fan_prefetch_advance(struct fan_node *node, uint64_t now_ns);

/* Fetches the blocks that clients say they will read soon (cache_format.h). Moves the hints of
 * sessions to a queue, and continues with the first hint as earlier blocks arrive. Drops a hint if
 * the queue or the cache has no room, or the share of the cache that hints may fill is used up.
 * Returns whether there was anything to do. */
bool fan_hints_advance(struct fan_node *node, uint64_t now_ns);
