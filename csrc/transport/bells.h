/*
 * Bells: datagrams by which a rank wakes another that sleeps, after it has sent it something by
 * MPI.
 *
 * MPI wakes nobody: whoever waits for a message has to ask for it again and again. So each rank has
 * a UDP socket. A ring carries the receiver's token and the sender's rank, nothing else; the kernel
 * drops datagrams without the token before they wake anybody. Rings may be lost, and then the
 * receiver notices the message when it looks by the clock.
 *
 * A rank that was active a moment ago still looks for messages by itself, and is not rung, unless
 * it has told that it sleeps at once.
 *
 * For one thread: the one that calls fan_bells_listen. While it sleeps in a futex wait on its
 * doorbell, a ring interrupts the sleep (SIGIO, sent to that thread alone).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAN_BELL_ADDRESSES = 4 };

/* Where a rank can be rung: the token that its rings must carry, the port of its socket, and the
 * addresses of its host (IPv4; port and addresses in network order; 0: none). */
struct fan_bell {
    uint64_t token;
    uint32_t port;
    uint32_t addresses[FAN_BELL_ADDRESSES];
    uint32_t reserved;
};

/* A rank to ring. heard: it has rung this one. address: the one of its addresses from which it did,
 * the only one used from then on; 0: not known. active_ns: when anything last came from it. sleeps:
 * it sleeps at once if it finds nothing to do. told: what this rank has told it of itself, in the
 * same sense. due: something was sent to it since fan_bells_ring. */
struct fan_bell_rank {
    struct fan_bell bell;
    uint64_t active_ns;
    uint32_t address;
    bool heard;
    bool sleeps;
    bool told;
    bool due;
};

/* fd: -1 if this host has no IPv4 socket for us; then nothing is rung. listens: rings interrupt the
 * thread. ranks: NULL until it is known where they are. due: the ranks to ring, `due_count` of
 * them. polled_ns: when messages were last looked for. */
struct fan_bells {
    int fd;
    bool listens;
    uint32_t own_rank;
    uint32_t world_size;
    uint32_t heard_count;
    uint32_t due_count;
    uint64_t polled_ns;
    uint32_t *due;
    struct fan_bell_rank *ranks;
    struct fan_bell own;
};

/* Opens this rank's socket. */
void fan_bells_init(struct fan_bells *bells, uint32_t own_rank, uint32_t world_size);

/* Closes the socket. Accepts a zeroed struct whose `fd` is -1. */
void fan_bells_fini(struct fan_bells *bells);

/* Tells where all ranks can be rung: `world_size` elements, copied. Returns 0 or -ENOMEM. */
int fan_bells_meet(struct fan_bells *bells, const struct fan_bell *all);

/* Makes a ring increment `doorbell` and interrupt the calling thread; rings all ranks once, so that
 * they learn this rank's address. Returns 0 or -errno: rings are not heard (-EBUSY: something else
 * in this process uses SIGIO). */
int fan_bells_listen(struct fan_bells *bells, uint32_t *doorbell);

/* Notes that something was sent to a rank. */
void fan_bells_note(struct fan_bells *bells, uint32_t rank);

/* A look for messages. rung: rings have come since the last one. slept_ns: the time since then. */
struct fan_bells_look {
    uint64_t now_ns;
    uint64_t slept_ns;
    bool rung;
};

/* Begins a look: takes the rings that have come, and learns from them. */
struct fan_bells_look fan_bells_look(struct fan_bells *bells);

/* Notes that a look has found something from a rank. */
void fan_bells_found(struct fan_bells *bells, const struct fan_bells_look *look, uint32_t rank);

/* Rings the noted ranks that may sleep. sleeps: this rank sleeps at once if it finds nothing to do.
 */
void fan_bells_ring(struct fan_bells *bells, bool sleeps);

/* Returns whether every other rank has been heard: then this rank may sleep until it is rung. */
static inline bool fan_bells_reach_all(const struct fan_bells *bells)
{
    return bells->listens && bells->heard_count + 1 == bells->world_size;
}
