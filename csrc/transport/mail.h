/*
 * Messages between daemons over MPI, on a tag of their own. Each is sent in one piece with its
 * head, and received where it stays. MPI matches those of one rank in order and may complete them
 * in another: they are passed on in order. One that is not what its head says, or that MPI says is
 * lost, is told once and means that its rank has to be given up: what follows it would leave a gap.
 */
#ifndef FAN_TRANSPORT_MAIL_H
#define FAN_TRANSPORT_MAIL_H

#include <mpi.h>
#include <stdint.h>

#include "operations.h"

/* coming: on their way from a rank, in order. */
struct fan_mail_rank {
    uint64_t sent;
    uint64_t heard;
    struct fan_queue coming;
};

/* arrived: to be told to the caller. */
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

/* As `send` of the transport. */
int fan_mail_send(struct fan_mail *mail, struct fan_message *message);

/* Receives and sends on. 0 or -EIO: MPI answers nothing but errors. */
int fan_mail_round(struct fan_mail *mail);

/* Fills up to `count` MESSAGE events; the number filled. */
int fan_mail_events(struct fan_mail *mail, struct fan_transport_event *events, int count);

/* Frees all but what MPI may still write to or read from. Accepts what was not made. */
void fan_mail_fini(struct fan_mail *mail);

#endif
