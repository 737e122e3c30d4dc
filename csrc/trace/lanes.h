/*
 * What the node daemon does with the lanes of the access trace (trace_format.h): it adds them up,
 * and gives those free whose owners have ended. `segment` is a mapped job segment of `bytes`; what
 * lies outside of it is -EINVAL. One thread at a time may change lanes.
 */
#ifndef FAN_TRACE_LANES_H
#define FAN_TRACE_LANES_H

#include <stdint.h>

#include "../format/trace_format.h"

/* cffi: begin */
/* Adds up the counts of all programs, those that ended among them. 0, -EINVAL, or -EAGAIN where
 * a daemon died while it moved something. */
int fan_trace_sum(const void *segment, uint64_t bytes, struct fan_counters *total);

/* Moves the counts of a lane to those that ended, adds it to `counted`, and gives the lane free.
 * Its owner must have ended. 0, or -EINVAL. */
int fan_trace_retire(void *segment, uint64_t bytes, uint32_t lane, struct fan_counters *counted);
/* cffi: end */

#endif
