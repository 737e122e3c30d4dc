/*
 * The node daemon's work on the lanes of the access trace (trace_format.h): it adds them up, and
 * frees those whose owners have ended. `segment` is a mapped job segment of `bytes`; -EINVAL if the
 * trace lies outside of it. One thread at a time may change lanes.
 */
#pragma once

#include <stdint.h>

#include "../format/trace_format.h"

/* cffi: begin */
/* Adds up the counts of all programs, including those that ended. Returns 0, -EINVAL, or -EAGAIN if
 * a daemon died while it moved counts. */
int fan_trace_sum(const void *segment, uint64_t bytes, struct fan_counters *total);

/* Moves the counts of a lane to those of the ended programs, adds them to `counted`, and frees the
 * lane. Its owner must have ended. Returns 0 or -EINVAL. */
int fan_trace_retire(void *segment, uint64_t bytes, uint32_t lane, struct fan_counters *counted);
/* cffi: end */
