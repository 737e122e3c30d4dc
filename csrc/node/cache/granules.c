#include "granules.h"

#include <errno.h>
#include <stdlib.h>

enum { NONE = UINT32_MAX };

static void link_free(struct fan_granules *granules, uint32_t start, unsigned order)
{
    uint32_t next = granules->heads[order];
    granules->links[start] = (struct fan_granule_link){NONE, next};
    if (next != NONE)
        granules->links[next].previous = start;
    granules->heads[order] = start;
    granules->orders[start] = (uint8_t)(order + 1);
    granules->free_count += 1u << order;
}

static void unlink_free(struct fan_granules *granules, uint32_t start)
{
    struct fan_granule_link link = granules->links[start];
    unsigned order = granules->orders[start] - 1u;
    if (link.previous == NONE)
        granules->heads[order] = link.next;
    else
        granules->links[link.previous].next = link.next;
    if (link.next != NONE)
        granules->links[link.next].previous = link.previous;
    granules->orders[start] = 0;
    granules->free_count -= 1u << order;
}

/* Frees an aligned run, joined with its buddy for as long as that is free too. */
static void free_aligned(struct fan_granules *granules, uint32_t start, unsigned order)
{
    for (; order < FAN_GRANULES_ORDER_MAX; order++) {
        uint32_t buddy = start ^ 1u << order;
        if (buddy >= granules->count || granules->orders[buddy] != order + 1)
            break;
        unlink_free(granules, buddy);
        start &= ~(1u << order);
    }
    link_free(granules, start, order);
}

void fan_granules_give(struct fan_granules *granules, uint32_t start, uint32_t count)
{
    while (count > 0) {
        unsigned order = start == 0 ? FAN_GRANULES_ORDER_MAX : (unsigned)__builtin_ctz(start);
        if (order > FAN_GRANULES_ORDER_MAX)
            order = FAN_GRANULES_ORDER_MAX;
        while (1u << order > count)
            order--;
        free_aligned(granules, start, order);
        start += 1u << order;
        count -= 1u << order;
    }
}

int64_t fan_granules_take(struct fan_granules *granules, uint32_t count)
{
    unsigned order = (unsigned)__builtin_ctz(fan_granules_run(count));
    while (order <= FAN_GRANULES_ORDER_MAX && granules->heads[order] == NONE)
        order++;
    if (order > FAN_GRANULES_ORDER_MAX)
        return -ENOSPC;
    uint32_t start = granules->heads[order];
    unlink_free(granules, start);
    fan_granules_give(granules, start + count, (1u << order) - count);
    return start;
}

int fan_granules_init(struct fan_granules *granules, uint32_t count)
{
    *granules = (struct fan_granules){.count = count};
    for (unsigned order = 0; order <= FAN_GRANULES_ORDER_MAX; order++)
        granules->heads[order] = NONE;
    granules->links = calloc((size_t)count + 1, sizeof(*granules->links));
    granules->orders = calloc((size_t)count + 1, 1);
    if (granules->links == NULL || granules->orders == NULL) {
        fan_granules_fini(granules);
        return -ENOMEM;
    }
    fan_granules_give(granules, 0, count);
    return 0;
}

void fan_granules_fini(struct fan_granules *granules)
{
    free(granules->links);
    free(granules->orders);
    *granules = (struct fan_granules){0};
}
