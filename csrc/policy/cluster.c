#include "cluster.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "holdings.h"

/* copies: for each item, how many caches have it. */
struct fan_cluster {
    struct fan_cluster_shape shape;
    uint16_t *copies;
    struct fan_holdings *nodes;
};

void fan_cluster_close(struct fan_cluster *cluster)
{
    for (uint32_t node = 0; cluster->nodes != NULL && node < cluster->shape.node_count; node++)
        fan_holdings_fini(&cluster->nodes[node]);
    free(cluster->nodes);
    free(cluster->copies);
    free(cluster);
}

static int open_nodes(struct fan_cluster *cluster)
{
    const struct fan_cluster_shape *shape = &cluster->shape;
    const struct fan_items items = {.sizes = shape->sizes, .count = shape->item_count};
    cluster->copies = calloc(shape->item_count, sizeof(*cluster->copies));
    cluster->nodes = calloc(shape->node_count, sizeof(*cluster->nodes));
    int rc = cluster->copies != NULL && cluster->nodes != NULL ? 0 : -ENOMEM;
    for (uint32_t node = 0; rc == 0 && node < shape->node_count; node++) {
        struct fan_holdings *holdings = &cluster->nodes[node];
        rc = fan_holdings_init(holdings, (enum fan_policy)shape->policy, &items, shape->slot_count,
                               shape->capacity_bytes);
        holdings->copies = cluster->copies;
    }
    return rc;
}

int fan_cluster_open(const struct fan_cluster_shape *shape, struct fan_cluster **opened)
{
    struct fan_cluster *cluster = calloc(1, sizeof(*cluster));
    if (cluster == NULL)
        return -ENOMEM;
    cluster->shape = *shape;
    int rc = open_nodes(cluster);
    if (rc != 0)
        fan_cluster_close(cluster);
    else
        *opened = cluster;
    return rc;
}

static bool is_kept(const struct fan_cluster *cluster, const struct fan_cluster_reads *reads,
                    uint32_t node, uint32_t item)
{
    return reads->kept != NULL &&
           reads->kept[(uint64_t)node * cluster->shape.item_count + item] != FAN_NOT_KEPT;
}

static enum fan_found find(struct fan_cluster *cluster, uint32_t node, uint32_t item,
                           uint32_t foreseen)
{
    struct fan_holdings *holdings = &cluster->nodes[node];
    bool elsewhere = cluster->copies[item] > fan_holdings_has(holdings, item);
    if (fan_holdings_read(holdings, item, foreseen, !elsewhere))
        return FAN_FOUND_HERE;
    return elsewhere ? FAN_FOUND_ELSEWHERE : FAN_FOUND_NOWHERE;
}

static void read_column(struct fan_cluster *cluster, const struct fan_cluster_reads *reads,
                        uint64_t column)
{
    const struct fan_cluster_shape *shape = &cluster->shape;
    uint64_t read = column;
    for (uint32_t node = 0; node < shape->node_count; node++) {
        for (uint32_t rank = 0; rank < shape->ranks_per_node; rank++, read += reads->columns) {
            uint64_t item = (uint64_t)reads->items[read];
            reads->found[read] = FAN_FOUND_NOWHERE;
            if (item >= shape->item_count || is_kept(cluster, reads, node, (uint32_t)item))
                continue;
            uint32_t foreseen = reads->next_uses != NULL ? reads->next_uses[read] : 0;
            reads->found[read] = (uint8_t)find(cluster, node, (uint32_t)item, foreseen);
        }
    }
}

void fan_cluster_read(struct fan_cluster *cluster, const struct fan_cluster_reads *reads)
{
    for (uint64_t column = 0; column < reads->columns; column++)
        read_column(cluster, reads, column);
}

uint64_t fan_cluster_peak_bytes(const struct fan_cluster *cluster)
{
    uint64_t peak_bytes = 0;
    for (uint32_t node = 0; node < cluster->shape.node_count; node++) {
        uint64_t bytes = cluster->nodes[node].peak_bytes;
        peak_bytes = bytes > peak_bytes ? bytes : peak_bytes;
    }
    return peak_bytes;
}

void fan_next_uses(const struct fan_cluster_shape *shape, uint64_t columns, const int64_t *items,
                   uint64_t first_place, uint32_t *last, uint32_t *next_uses)
{
    uint32_t ranks = shape->node_count * shape->ranks_per_node;
    for (uint64_t column = columns; column-- > 0;) {
        for (uint32_t rank = ranks; rank-- > 0;) {
            uint64_t read = rank * columns + column;
            uint64_t item = (uint64_t)items[read];
            if (item >= shape->item_count)
                continue;
            uint32_t *next =
                &last[(uint64_t)(rank / shape->ranks_per_node) * shape->item_count + item];
            next_uses[read] = *next;
            *next = (uint32_t)(first_place + column * shape->ranks_per_node +
                               rank % shape->ranks_per_node);
        }
    }
}
