/*
 * Decides which stream of a node fetches its next record: the one whose reader will run out of
 * records first. So the bytes ahead and on their way are divided by need: a faster stream gets more
 * of them, and all streams are the same number of seconds ahead. Lobster (Liu, Nicolae, Li, ICPP
 * 2022, section 4.4) has that aim for threads: its Algorithm 1 searches, batch by batch, how many
 * should load for each GPU, so that T_L + T_P - T_train is as near 0 for one as for the others.
 * Here one decision for each record does it (earliest deadline first): no model of threads is
 * needed, nothing is searched, and the next record corrects a wrong decision.
 *
 * The pace of a stream is measured only while records are ahead of it: a stream that waits for
 * records would look slow, and get even less. Pure: the caller passes the time.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../machine/queue.h"

/* records, time_ns: how many records were read lately, and in which time; older reads count less.
 * read: the number of all records read by at_ns, which is 0 before the first report. */
struct fan_pace {
    double records;
    double time_ns;
    uint64_t read;
    uint64_t at_ns;
};

/* One stream. ahead: how many fetched records it has not read yet; period_ns: the time for one
 * record, by its pace. held: nothing more can be fetched for it before the next fan_turns_begin. */
struct fan_turn {
    struct fan_queued link; /* must be first: code converts between pointers to both */
    struct fan_pace pace;
    uint64_t ahead;
    double period_ns;
    bool held;
};

/* Returns the first stream of the queue. The order of the queue decides between streams that need
 * their next record equally soon. */
static inline struct fan_turn *fan_turn_first(const struct fan_queue *turns)
{
    return (struct fan_turn *)turns->first;
}

static inline struct fan_turn *fan_turn_after(const struct fan_turn *turn)
{
    return (struct fan_turn *)turn->link.next;
}

/* Records that a stream has read `read` records by now. waited: no record was ahead of it. */
void fan_pace_note(struct fan_pace *pace, uint64_t read, bool waited, uint64_t now_ns);

/* Begins a round of decisions; the caller has set `ahead` in each stream. A stream of unknown pace
 * counts as the fastest. */
void fan_turns_begin(struct fan_queue *turns, uint64_t now_ns);

/* Returns the stream that comes next, or NULL if all are held. */
struct fan_turn *fan_turns_next(const struct fan_queue *turns);

/* Records that one more record of a stream is ahead, or that the stream is held. The stream goes
 * behind those that need their next record equally soon. */
void fan_turns_took(struct fan_queue *turns, struct fan_turn *turn);
void fan_turns_hold(struct fan_queue *turns, struct fan_turn *turn);
