/*
 * Agrees on the end of the job. Each rank tells rank 0 when it needs nothing more, and serves the
 * others until rank 0 answers that all ranks have said so or are lost: two messages for each rank,
 * however many there are. If rank 0 is lost, every rank tells all others. A silent rank is pinged;
 * one that does not answer counts as lost.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../machine/transport.h"

struct fan_ranks;

/* cffi: begin */
/* A rank that owes an answer is lost when it has been silent for this many deadlines. */
enum { FAN_SILENT_DEADLINES = 3 };
/* cffi: end */

enum fan_notice {
    FAN_NOTICE_FINISHED = 1,
    FAN_NOTICE_PING = 2,
    FAN_NOTICE_PONG = 3,
    FAN_NOTICE_ALL_FINISHED = 4, /* from rank 0: no rank reads any more */
    FAN_NOTICE_LOST = 5,         /* sent before it: the number of a lost rank, in the bits above */
    FAN_NOTICE_BITS = 8
};

/* Handles a NOTICE event. */
void fan_job_end_notice(struct fan_ranks *ranks, const struct fan_transport_event *event);

/* Announces the end if the caller has asked for it, then pings silent ranks. asked_ahead: blocks
 * that this rank requested ahead are still on their way. */
void fan_job_end_advance(struct fan_ranks *ranks, bool asked_ahead, uint64_t now_ns);

/* Returns when fan_job_end_advance must be called again at the latest. */
uint64_t fan_job_end_next_ns(const struct fan_ranks *ranks);
