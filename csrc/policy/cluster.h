/*
 * Simulates the caches of all nodes of a job while their ranks read in step: all ranks read their
 * first item, in the order of the ranks, then all their second, and so on. Pure.
 */
#pragma once

#include <stdint.h>

/* cffi: begin */
/* slot_count: the most items that one cache can hold at once. sizes: the bytes of each item; the
 * caller owns them and must keep them as long as the cluster. capacity_bytes: of each cache. */
struct fan_cluster_shape {
    uint32_t policy;
    uint32_t node_count;
    uint32_t ranks_per_node;
    uint32_t item_count;
    uint32_t slot_count;
    const uint64_t *sizes;
    uint64_t capacity_bytes;
};

enum fan_found { FAN_FOUND_NOWHERE = 0, FAN_FOUND_HERE = 1, FAN_FOUND_ELSEWHERE = 2 };

/* items, next_uses, found: ranks x columns. items: the item of each read; item_count means no read.
 * next_uses (reuse, belady): from fan_next_uses. kept: nodes x items; FAN_NOT_KEPT if the node does
 * not have the item outside its cache; items that it has there bypass the cache; NULL: no node has
 * any. found: enum fan_found of each read, by the content of the caches just before it. */
struct fan_cluster_reads {
    uint64_t columns;
    const int64_t *items;
    const uint32_t *next_uses;
    const uint8_t *kept;
    uint8_t *found;
};

struct fan_cluster;

/* Creates a cluster with empty caches. Returns 0 or -ENOMEM. */
int fan_cluster_open(const struct fan_cluster_shape *shape, struct fan_cluster **cluster);
void fan_cluster_close(struct fan_cluster *cluster);

/* Simulates the reads of an epoch, and fills `found`. */
void fan_cluster_read(struct fan_cluster *cluster, const struct fan_cluster_reads *reads);

/* Returns the most bytes that any one cache held at once. */
uint64_t fan_cluster_peak_bytes(const struct fan_cluster *cluster);

/* Fills next_uses for an epoch of ranks x columns items: the place (position in the node's reads)
 * of its next read of the item, or UINT32_MAX. Call it for the last epoch first. A node's places
 * count the reads of all its ranks. last: nodes x items, passed from each call to the next;
 * UINT32_MAX everywhere before the first. */
void fan_next_uses(const struct fan_cluster_shape *shape, uint64_t columns, const int64_t *items,
                   uint64_t first_place, uint32_t *last, uint32_t *next_uses);
/* cffi: end */

enum { FAN_NOT_KEPT = 255 };
