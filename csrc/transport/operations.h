/*
 * The MPI requests of this side and what each is for. The requests lie in one dense array, as
 * MPI_Testsome wants them; an operation stays where it is in memory, since MPI may write to its
 * buffer. One thread.
 */
#ifndef FAN_TRANSPORT_OPERATIONS_H
#define FAN_TRANSPORT_OPERATIONS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* The errno of an MPI error. EIO and ENOENT are the owner's to say: they are about the bytes. */
int fan_mpi_errno(int mpi_error);

/* Has an MPI with fault tolerance (ULFM) answer probes of any rank again, which it does not while
 * it knows of a dead rank that was not acknowledged. */
void fan_mpi_go_on(MPI_Comm comm);

/* No error of MPI may end the process, on whatever communicator the library blames it. */
void fan_mpi_keep_alive(MPI_Comm comm);

/* Answers of up to this many bytes are received beside the operation, so that a refusal fits. */
enum { FAN_SMALL_FETCH_BYTES = 16 };

enum fan_operation_kind {
    FAN_OPERATION_LISTEN,  /* receives a request or a notice */
    FAN_OPERATION_MESSAGE, /* sends the operation's own buffer: a request, a notice, a refusal */
    FAN_OPERATION_REPLY,   /* sends bytes of a pack */
    FAN_OPERATION_FETCH,   /* receives what was asked for */
    FAN_OPERATION_DISCARD, /* receives, if it ever comes, what was asked for and then given up */
    FAN_OPERATION_SEND,    /* sends mail */
    FAN_OPERATION_RECEIVE  /* receives mail */
};

struct fan_operation {
    enum fan_operation_kind kind;
    int index;  /* in the dense arrays */
    uint32_t rank;
    uint32_t tag;
    uint32_t bytes;
    int error;     /* FETCH: why we gave it up ourselves, -errno */
    bool given_up; /* FETCH: the caller asked for that */
    uint64_t token;
    void *to;                       /* FETCH: where the caller wants it */
    void *discard;                  /* where goes what nobody wants, or what is too long; or NULL */
    struct fan_operation *asks_for; /* MESSAGE: the fetch whose request this is, or NULL */
    struct fan_message *mail;       /* SEND, RECEIVE */
    struct fan_operation *next_free;
    union {
        struct fan_wire_message message;
        struct fan_wire_refusal refusal;
        uint8_t small[FAN_SMALL_FETCH_BYTES + 8];
    } buffer;
};

struct fan_operations {
    int count;
    int capacity;
    struct fan_operation *free;
    struct fan_operation **active; /* capacity each; the last three are filled by a round */
    MPI_Request *requests;
    MPI_Status *statuses;
    int *indices;
    struct fan_operation **completed;
};

/* A fresh operation, its request null. NULL: no memory. */
struct fan_operation *fan_operation_begin(struct fan_operations *operations,
                                          enum fan_operation_kind kind);

/* Where its MPI request goes; valid until the next operation begins. */
static inline MPI_Request *fan_operation_request(struct fan_operations *operations,
                                                 const struct fan_operation *operation)
{
    return &operations->requests[operation->index];
}

/* Begins to receive, at `to`, a message that was probed for. One of more than `most` bytes comes
 * whole to memory that is thrown away: Open MPI writes past the end of room that is too small. 0,
 * or -errno: -ENOMEM, and nothing receives it. */
int fan_operation_receive(struct fan_operations *operations, struct fan_operation *operation,
                          MPI_Message *matched, const MPI_Status *status, void *to, int most);

/* Done with it: its request is complete, or was never made. */
void fan_operation_end(struct fan_operations *operations, struct fan_operation *operation);

/* The operation that receives under `tag`, given up or not; NULL: none. */
struct fan_operation *fan_operation_tagged(const struct fan_operations *operations, uint32_t tag);

/* The fetch of `token`, or NULL. */
struct fan_operation *fan_operation_of_token(const struct fan_operations *operations,
                                             uint64_t token);

/* Lets MPI work and finds what is complete: `completed` and `statuses` hold that many. -EIO: MPI
 * answers nothing but errors. */
int fan_operations_round(struct fan_operations *operations);

/* Frees all but what MPI may still write to or read from. */
void fan_operations_fini(struct fan_operations *operations);

#endif
