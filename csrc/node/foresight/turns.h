/*
 * Whose record is brought next, where a node has several streams: that of the stream whose reader
 * will have read what is ahead of it first. So the bytes ahead and under way are divided by need: a
 * stream that reads faster gets more of them, and all are as many seconds ahead. Lobster (Liu,
 * Nicolae, Li, ICPP 2022, section 4.4) has that aim for threads: its Algorithm 1 searches, batch by
 * batch, how many should load for each GPU, so that T_L + T_P - T_train is as near 0 for one as for
 * the others. Here one decision a record does it (earliest deadline first): no model of threads is
 * needed, nothing is searched, and what was wrong is put right with the next record.
 *
 * How fast a stream reads is measured while something is ahead of it: one that waits for what is
 * brought would look slow for that, and get less. Pure: the clock is the caller's.
 */
#ifndef FAN_NODE_TURNS_H
#define FAN_NODE_TURNS_H

#include <stdbool.h>
#include <stdint.h>

#include "../machine/queue.h"

/* records, in time_ns: what was read lately, older reads count less. read: how many records were,
 * by at_ns, which is 0 before the first note. */
struct fan_pace {
    double records;
    double time_ns;
    uint64_t read;
    uint64_t at_ns;
};

/* One stream. ahead: how many records were brought that it has not read; period_ns: of a record, by
 * its pace. held: nothing of it can be brought before the next fan_turns_begin. */
struct fan_turn {
    struct fan_queued link; /* first, so that one is the other */
    struct fan_pace pace;
    uint64_t ahead;
    double period_ns;
    bool held;
};

/* The streams are a queue of turns, in the order in which they go where all need their next record
 * as soon. */
static inline struct fan_turn *fan_turn_first(const struct fan_queue *turns)
{
    return (struct fan_turn *)turns->first;
}

static inline struct fan_turn *fan_turn_after(const struct fan_turn *turn)
{
    return (struct fan_turn *)turn->link.next;
}

/* `read` records of a stream were read by now. waited: none was ahead of it. */
void fan_pace_note(struct fan_pace *pace, uint64_t read, bool waited, uint64_t now_ns);

/* Decisions begin, for which each stream says what is `ahead`. One whose pace is not known yet
 * counts as the fastest. */
void fan_turns_begin(struct fan_queue *turns, uint64_t now_ns);

/* The stream that comes next, or NULL: all are held. */
struct fan_turn *fan_turns_next(const struct fan_queue *turns);

/* One more record of it is ahead; or it was held. It goes behind those that need theirs as soon. */
void fan_turns_took(struct fan_queue *turns, struct fan_turn *turn);
void fan_turns_hold(struct fan_queue *turns, struct fan_turn *turn);

#endif
