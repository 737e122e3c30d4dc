/*
 * The end of the job among the ranks: each tells rank 0 when it needs nothing more, and serves the
 * others until that says that all have said so, or are lost: two messages a rank, however many
 * there are. Where rank 0 is lost all tell all. Who says nothing is asked; who does not answer is
 * lost.
 */
#ifndef FAN_NODE_JOB_END_H
#define FAN_NODE_JOB_END_H

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"

struct fan_ranks;

enum fan_notice {
    FAN_NOTICE_FINISHED = 1,
    FAN_NOTICE_PING = 2,
    FAN_NOTICE_PONG = 3,
    FAN_NOTICE_ALL_FINISHED = 4, /* from rank 0: nobody reads any more */
    FAN_NOTICE_LOST = 5,         /* before that: a rank that was lost, in the bits above */
    FAN_NOTICE_BITS = 8
};

/* A NOTICE event. */
void fan_job_end_notice(struct fan_ranks *ranks, const struct fan_transport_event *event);

/* Announces the end once it is asked for, then asks the silent ones. asked_ahead: something that
 * was asked of others ahead is still to come. */
void fan_job_end_advance(struct fan_ranks *ranks, bool asked_ahead, uint64_t now_ns);

/* When that is to be called again at the latest. */
uint64_t fan_job_end_next_ns(const struct fan_ranks *ranks);

#endif
