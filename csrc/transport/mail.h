/*
 * Messages between daemons over MPI, on a tag of their own. Each is sent in one piece with its
 * head, and received straight into its final memory. MPI matches the messages of one rank in order
 * but may complete them in another; this file delivers them in order. If a message does not match
 * its head, or MPI reports it lost, this is reported once, and the rank must be given up: later
 * messages would leave a gap.
 */
#ifndef FAN_TRANSPORT_MAIL_H
#define FAN_TRANSPORT_MAIL_H

#include <mpi.h>
#include <stdint.h>

#include "operations.h"

/* coming: messages on their way from a rank, in order. */
struct fan_mail_rank {
    uint64_t sent;
    uint64_t heard;
    struct fan_queue coming;
};

/* arrived: messages that wait to be reported to the caller. */
struct fan_mail {
    MPI_Comm comm;
    uint32_t world_size;
    struct fan_mail_rank *ranks;
    struct fan_queue arrived;
    struct fan_operations operations;
    uint64_t ill_formed;
};

/* 0 or -ENOMEM. */
int fan_mail_init(struct fan_mail *mail, MPI_Comm comm, uint32_t world_size);

/* Implements `send` of the transport. */
int fan_mail_send(struct fan_mail *mail, struct fan_message *message);

/* Makes progress with receives and sends. Returns 0, or -EIO: MPI returns nothing but errors. */
int fan_mail_round(struct fan_mail *mail);

/* Takes up to `count` messages that have arrived, and writes an event for each to `events`. Returns
 * the number of events. */
int fan_mail_events(struct fan_mail *mail, struct fan_transport_event *events, int count);

/* Frees everything except memory that MPI may still use. Accepts a zeroed struct. */
void fan_mail_fini(struct fan_mail *mail);

#endif
