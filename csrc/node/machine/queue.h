/*
 * A queue of things, the oldest first. Each thing contains its link, so the queue allocates
 * nothing; a zeroed queue is empty. The caller makes sure that one thread at a time uses a queue.
 */
#ifndef FAN_NODE_QUEUE_H
#define FAN_NODE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The link in a thing, which is in one queue at a time at most. */
struct fan_queued {
    struct fan_queued *next;
};

/* last: meaningless while the queue is empty. */
struct fan_queue {
    struct fan_queued *first;
    struct fan_queued *last;
    uint32_t count;
};

/* The thing that contains the link as its `member`; the link is not NULL. */
#define FAN_OF_QUEUED(link, type, member) ((type *)((char *)(link) - offsetof(type, member)))

/* Adds a thing behind all others. */
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

/* Adds a thing before all others. */
static inline void fan_queue_put_first(struct fan_queue *queue, struct fan_queued *link)
{
    link->next = queue->first;
    if (queue->first == NULL)
        queue->last = link;
    queue->first = link;
    queue->count++;
}

/* Takes the oldest thing; NULL if the queue is empty. */
static inline struct fan_queued *fan_queue_take(struct fan_queue *queue)
{
    struct fan_queued *link = queue->first;
    if (link == NULL)
        return NULL;
    queue->first = link->next;
    queue->count--;
    return link;
}

/* Removes a thing from wherever it is in the queue; searches from the front. Returns whether it was
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

#endif
