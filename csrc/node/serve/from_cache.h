/*
 * Answers other ranks from the block cache. Records that are on no rank's disk are divided among
 * the ranks' memories (storage/share.h): each rank keeps its share in its block cache for all
 * ranks. A block that is not there is first read from the shared file system. A block is not
 * evicted while its bytes are sent.
 */
#ifndef FAN_NODE_FROM_CACHE_H
#define FAN_NODE_FROM_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

/* Answers a request at once, or when the bytes arrive; fan_staged_admit must have checked that the
 * bytes exist. Returns false if the bytes are not in this rank's share of memory, or cannot be
 * fetched: the caller must answer. */
bool fan_request_answer_from_cache(struct fan_node *node, uint32_t rank,
                                   const struct fan_fetch_request *request, uint64_t now_ns);

#endif
