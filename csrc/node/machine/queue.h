/*
 * A queue of things, the oldest first. Each has a link in it, so nothing is allocated; a zeroed
 * queue is empty. The caller sees to it that one thread at a time uses a queue.
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

/* The thing whose `member` is a link, which is not NULL. */
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

/* Takes the oldest thing; NULL where there is none. */
static inline struct fan_queued *fan_queue_take(struct fan_queue *queue)
{
    struct fan_queued *link = queue->first;
    if (link == NULL)
        return NULL;
    queue->first = link->next;
    queue->count--;
    return link;
}

/* Takes a thing from its place, which is looked for from the front. Whether it was there. */
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
