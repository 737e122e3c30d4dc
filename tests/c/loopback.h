/*
 * A transport between ranks of one process, for tests: queues under one mutex, and knobs for all
 * that can go wrong between machines. The knobs may be turned while it runs.
 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "../../csrc/node/machine/transport.h"

enum { LOOPBACK_RANKS = 4 };

/* Of one rank. frozen: it receives nothing for now, as when it is stopped. deaf: requests to it are
 * never answered. refuse: the errno its answers carry, 0: bytes. delay_us: how long they take.
 * stubborn: what it asked for and cancelled is written to all the same when the answer comes, and
 * no cancellation is confirmed. cut: asking it fails. broken: its own poll fails. short_of_memory:
 * it sends no messages for now. garbled: messages come to it damaged. */
struct loopback_knobs {
    atomic_int frozen;
    atomic_int deaf;
    atomic_int refuse;
    atomic_int delay_us;
    atomic_int stubborn;
    atomic_int cut;
    atomic_int broken;
    atomic_int short_of_memory;
    atomic_int garbled;
};

struct loopback;

struct loopback *loopback_open(uint32_t world_size);

/* Once the transports of all ranks were closed, or will not be. */
void loopback_close(struct loopback *loopback);

struct fan_transport *loopback_transport(struct loopback *loopback, uint32_t rank);
struct loopback_knobs *loopback_knobs(struct loopback *loopback, uint32_t rank);

/* Bytes that arrived for fetches that were cancelled before. */
uint64_t loopback_late_bytes(struct loopback *loopback);
