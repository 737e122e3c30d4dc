/*
 * Answers the requests of other ranks: with the bytes, directly from the mapped pack, or with the
 * reason why there are none. If the bytes are not in memory, a reader's thread waits for the disk.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"

struct fan_node;

/* Answers a REQUEST event now, or when a reader's thread has the bytes. */
void fan_request_answer(struct fan_node *node, const struct fan_transport_event *event,
                        uint64_t now_ns);

/* Answers a request from the block cache, at once, or when the bytes arrive; fan_staged_admit must
 * have checked that the bytes exist. Returns false if they are not in this rank's share of memory,
 * or cannot be fetched: the caller must answer.
 *
 * Records that are on no rank's disk are divided among the ranks' memories (storage/share.h): each
 * rank keeps its share in its block cache for all ranks. A block that is not there is first read
 * from the shared file system. A block is not evicted while its bytes are sent. */
bool fan_request_answer_from_cache(struct fan_node *node, uint32_t rank,
                                   const struct fan_fetch_request *request, uint64_t now_ns);
