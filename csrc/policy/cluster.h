/*
 * The caches of all nodes of a job, fed with what their ranks read in step: all ranks read their
 * first item, in the order of the ranks, then all their second, and so on. Pure.
 */
#ifndef FAN_POLICY_CLUSTER_H
#define FAN_POLICY_CLUSTER_H

#include <stdint.h>

/* cffi: begin */
/* slot_count: the most items that one cache can hold at once. sizes: in bytes of each item; they
 * stay the caller's and must outlive the cluster. capacity_bytes: of each cache. */
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

/* items, next_uses, found: ranks x columns. items: what is read; item_count where nothing is.
 * next_uses (reuse, belady): as fan_next_uses gives them. first_place: of what the first rank of
 * each node reads first. kept: nodes x items, FAN_NOT_KEPT where a node does not have the item
 * outside of its cache; what it has passes the cache by; NULL: it has none. found: enum fan_found
 * of each read, by what the caches held just before it. */
struct fan_cluster_reads {
    uint64_t columns;
    const int64_t *items;
    const uint32_t *next_uses;
    uint64_t first_place;
    const uint8_t *kept;
    uint8_t *found;
};

struct fan_cluster;

/* 0 or -ENOMEM. */
int fan_cluster_open(const struct fan_cluster_shape *shape, struct fan_cluster **cluster);
void fan_cluster_close(struct fan_cluster *cluster);

/* Reads an epoch. */
void fan_cluster_read(struct fan_cluster *cluster, const struct fan_cluster_reads *reads);

/* The most that one cache held at once. */
uint64_t fan_cluster_peak_bytes(const struct fan_cluster *cluster);

/* Of an epoch of ranks x columns items, the last one first: at which place each node reads each
 * item next, or UINT32_MAX. A node's places count all reads of its ranks. last: nodes x items, what
 * epochs after this one gave: UINT32_MAX before the first call. */
void fan_next_uses(const struct fan_cluster_shape *shape, uint64_t columns, const int64_t *items,
                   uint64_t first_place, uint32_t *last, uint32_t *next_uses);
/* cffi: end */

enum { FAN_NOT_KEPT = 255 };

#endif
