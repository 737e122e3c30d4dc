/*
 * The MPI requests of this rank, one for each operation. The requests are in one dense array, as
 * MPI_Testsome requires; an operation never moves in memory, because MPI may write to its buffer.
 * For one thread.
 */
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* Returns the errno for an MPI error. Never EIO or ENOENT, which only the rank with the bytes
 * answers. */
int fan_mpi_errno(int mpi_error);

/* Acknowledges dead ranks in an MPI with fault tolerance (ULFM), which answers no probe for any
 * rank until that is done. */
void fan_mpi_go_on(MPI_Comm comm);

/* Makes MPI return errors instead of ending the process, on every communicator that it may use for
 * them. */
void fan_mpi_keep_alive(MPI_Comm comm);

/* Answers of up to this many bytes are received into the operation's own buffer, because a refusal
 * may be longer than the fetch. */
enum { FAN_SMALL_FETCH_BYTES = 16 };

enum fan_operation_kind {
    FAN_OPERATION_LISTEN,  /* receives a request or a notice */
    FAN_OPERATION_MESSAGE, /* sends the operation's own buffer: a request, a notice, a refusal */
    FAN_OPERATION_REPLY,   /* sends bytes of a pack */
    FAN_OPERATION_FETCH,   /* receives the answer to a fetch */
    FAN_OPERATION_DISCARD, /* receives the late answer to a fetch that was given up */
    FAN_OPERATION_SEND,    /* sends a message of mail.h */
    FAN_OPERATION_RECEIVE  /* receives a message of mail.h */
};

struct fan_operation {
    enum fan_operation_kind kind;
    int index; /* its position in the dense arrays */
    uint32_t rank;
    uint32_t tag;
    uint32_t bytes;
    int error;     /* FETCH: the reason why this side gave it up, -errno */
    bool given_up; /* FETCH: the caller gave it up */
    uint64_t token;
    void *to;                       /* FETCH: the caller's memory for the bytes */
    void *discard;                  /* memory for answers that are unwanted or too long; or NULL */
    struct fan_operation *asks_for; /* MESSAGE: the fetch whose request this is, or NULL */
    struct fan_message *mail;       /* SEND, RECEIVE: the message */
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
    struct fan_operation **active; /* arrays of `capacity` elements; a round fills the last three */
    MPI_Request *requests;
    MPI_Status *statuses;
    int *indices;
    struct fan_operation **completed;
};

/* Begins an operation whose request is MPI_REQUEST_NULL. Returns NULL if there is no memory. */
struct fan_operation *fan_operation_begin(struct fan_operations *operations,
                                          enum fan_operation_kind kind);

/* Returns the address of an operation's MPI request, which is valid until the next operation
 * begins. */
static inline MPI_Request *fan_operation_request(struct fan_operations *operations,
                                                 const struct fan_operation *operation)
{
    return &operations->requests[operation->index];
}

/* Begins to receive a probed message into `to`. A message of more than `most` bytes goes to
 * temporary memory that is freed afterwards, because Open MPI writes past the end of a buffer that
 * is too small. Returns 0, or -errno: -ENOMEM, and then nothing receives the message. */
int fan_operation_receive(struct fan_operations *operations, struct fan_operation *operation,
                          MPI_Message *matched, const MPI_Status *status, void *to, int most);

/* Ends an operation whose request is complete or was never started. */
void fan_operation_end(struct fan_operations *operations, struct fan_operation *operation);

/* Returns the operation that receives on `tag`, given up or not, or NULL. */
struct fan_operation *fan_operation_tagged(const struct fan_operations *operations, uint32_t tag);

/* Returns the fetch with this token, or NULL. */
struct fan_operation *fan_operation_of_token(const struct fan_operations *operations,
                                             uint64_t token);

/* Lets MPI make progress and finds the complete operations. Returns how many there are in
 * `completed` and `statuses`; -EIO: MPI returns nothing but errors. */
int fan_operations_round(struct fan_operations *operations);

/* Frees everything except memory that MPI may still use. */
void fan_operations_fini(struct fan_operations *operations);
