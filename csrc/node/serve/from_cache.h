/*
 * Answers from the block cache. Records that are on no rank's disk are divided among the ranks'
 * memories (storage/share.h): each rank keeps its share in its block cache, for all. A block that
 * is not there is read from the shared file system first. It is not evicted while its bytes are
 * sent.
 */
#ifndef FAN_NODE_FROM_CACHE_H
#define FAN_NODE_FROM_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

/* Answers a request that fan_staged_admit knows to be for bytes that exist: at once, or when they
 * have come. False: they are not of this rank's share of memory, or cannot be brought; the caller
 * answers. */
bool fan_request_answer_from_cache(struct fan_node *node, uint32_t rank,
                                   const struct fan_fetch_request *request, uint64_t now_ns);

#endif
