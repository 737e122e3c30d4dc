/*
 * Messages between daemons over MPI, on a tag of their own. Each message is sent in one piece with
 * its head, and received directly into its final memory. MPI matches the messages of one rank in
 * order but may complete them in another; this file delivers them in order. If a message does not
 * match its head, or MPI reports it lost, this is reported once, and the caller must count the rank
 * as lost: a message between others would be missing.
 */
#pragma once

#include <mpi.h>
#include <stdint.h>

#include "operations.h"

/* coming: messages from the rank that are being received, in order. */
struct fan_mail_rank {
    uint64_t sent;
    uint64_t heard;
    struct fan_queue coming;
};

/* arrived: messages that the caller has not fetched yet. */
struct fan_mail {
    MPI_Comm comm;
    uint32_t world_size;
    struct fan_mail_rank *ranks;
    struct fan_queue arrived;
    struct fan_operations operations;
    uint64_t ill_formed;
};

/* Initialises the mail of a rank. Returns 0 or -ENOMEM. */
int fan_mail_init(struct fan_mail *mail, MPI_Comm comm, uint32_t world_size);

/* Implements the transport's function `send`. */
int fan_mail_send(struct fan_mail *mail, struct fan_message *message);

/* Makes progress with receives and sends. Returns 0, or -EIO if MPI fails again and again. */
int fan_mail_round(struct fan_mail *mail);

/* Takes up to `count` messages that have arrived, and writes an event for each to `events`. Returns
 * the number of events. */
int fan_mail_events(struct fan_mail *mail, struct fan_transport_event *events, int count);

/* Frees everything except memory that MPI may still use. Accepts a zeroed struct. */
void fan_mail_fini(struct fan_mail *mail);
