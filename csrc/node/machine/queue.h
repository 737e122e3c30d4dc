/*
 * A first-in, first-out queue. Each element contains its link, so the queue allocates nothing; a
 * zeroed queue is empty. Only one thread at a time may use a queue.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The link in an element, which is in at most one queue at a time. */
struct fan_queued {
    struct fan_queued *next;
};

/* last: meaningless while the queue is empty. */
struct fan_queue {
    struct fan_queued *first;
    struct fan_queued *last;
    uint32_t count;
};

/* Returns the element that contains the link as its `member`; the link must not be NULL. */
#define FAN_OF_QUEUED(link, type, member) ((type *)((char *)(link) - offsetof(type, member)))

/* Adds an element behind all others. */
static inline void fan_queue_put(struct fan_queue *queue, struct fan_queued *link)
{
    link->next = NULL;
    if (queue->first == NULL)
        queue->first = link;
    else
        queue->last->next = link;
    queue->last = link;
    queue->count++;
}

/* Adds an element before all others. */
static inline void fan_queue_put_first(struct fan_queue *queue, struct fan_queued *link)
{
    link->next = queue->first;
    if (queue->first == NULL)
        queue->last = link;
    queue->first = link;
    queue->count++;
}

/* Removes and returns the oldest element; NULL if the queue is empty. */
static inline struct fan_queued *fan_queue_take(struct fan_queue *queue)
{
    struct fan_queued *link = queue->first;
    if (link == NULL)
        return NULL;
    queue->first = link->next;
    queue->count--;
    return link;
}

/* Removes an element from any place of the queue; searches from the front. Returns whether it was
 * there. */
static inline bool fan_queue_remove(struct fan_queue *queue, const struct fan_queued *link)
{
    struct fan_queued *before = NULL, *each = queue->first;
    for (; each != NULL && each != link; each = each->next)
        before = each;
    if (each == NULL)
        return false;
    if (before == NULL)
        queue->first = each->next;
    else
        before->next = each->next;
    if (queue->last == each)
        queue->last = before;
    queue->count--;
    return true;
}
