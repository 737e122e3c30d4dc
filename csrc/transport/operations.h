/*
 * This side's MPI requests, each with its operation. The requests lie in one dense array, as
 * MPI_Testsome wants them; an operation never moves in memory, because MPI may write to its buffer.
 * One thread.
 */
#ifndef FAN_TRANSPORT_OPERATIONS_H
#define FAN_TRANSPORT_OPERATIONS_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire.h"

/* The errno for an MPI error. Never EIO or ENOENT: only the owner of the bytes answers with these.
 */
int fan_mpi_errno(int mpi_error);

/* Makes an MPI with fault tolerance (ULFM) answer probes for any rank again: it does not as long as
 * a dead rank is not acknowledged. */
void fan_mpi_go_on(MPI_Comm comm);

/* Makes sure that no error of MPI ends the process, whichever communicator the library assigns it
 * to. */
void fan_mpi_keep_alive(MPI_Comm comm);

/* Answers of up to this many bytes are received into the operation's own buffer, so that a refusal
 * fits. */
enum { FAN_SMALL_FETCH_BYTES = 16 };

enum fan_operation_kind {
    FAN_OPERATION_LISTEN,  /* receives a request or a notice */
    FAN_OPERATION_MESSAGE, /* sends the operation's own buffer: a request, a notice, a refusal */
    FAN_OPERATION_REPLY,   /* sends bytes of a pack */
    FAN_OPERATION_FETCH,   /* receives what was asked for */
    FAN_OPERATION_DISCARD, /* receives the late answer to a fetch that was given up */
    FAN_OPERATION_SEND,    /* sends mail */
    FAN_OPERATION_RECEIVE  /* receives mail */
};

struct fan_operation {
    enum fan_operation_kind kind;
    int index;  /* in the dense arrays */
    uint32_t rank;
    uint32_t tag;
    uint32_t bytes;
    int error;     /* FETCH: the reason why this side gave it up, -errno */
    bool given_up; /* FETCH: the caller gave it up */
    uint64_t token;
    void *to;                       /* FETCH: the caller's memory */
    void *discard;                  /* receives unwanted or too long answers; or NULL */
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

/* Makes an operation with a null request. NULL if there is no memory. */
struct fan_operation *fan_operation_begin(struct fan_operations *operations,
                                          enum fan_operation_kind kind);

/* The place of an operation's MPI request; valid until the next operation begins. */
static inline MPI_Request *fan_operation_request(struct fan_operations *operations,
                                                 const struct fan_operation *operation)
{
    return &operations->requests[operation->index];
}

/* Begins to receive a probed message into `to`. A message of more than `most` bytes goes to
 * temporary memory that is thrown away, because Open MPI writes past the end of a buffer that is
 * too small. Returns 0, or -errno: -ENOMEM, and then nothing receives the message. */
int fan_operation_receive(struct fan_operations *operations, struct fan_operation *operation,
                          MPI_Message *matched, const MPI_Status *status, void *to, int most);

/* Ends an operation whose request is complete, or was never made. */
void fan_operation_end(struct fan_operations *operations, struct fan_operation *operation);

/* Returns the operation that receives on `tag`, given up or not, or NULL. */
struct fan_operation *fan_operation_tagged(const struct fan_operations *operations, uint32_t tag);

/* Returns the fetch of `token`, or NULL. */
struct fan_operation *fan_operation_of_token(const struct fan_operations *operations,
                                             uint64_t token);

/* Lets MPI make progress and finds the complete operations. Returns how many there are in
 * `completed` and `statuses`; -EIO: MPI returns nothing but errors. */
int fan_operations_round(struct fan_operations *operations);

/* Frees everything except memory that MPI may still use. */
void fan_operations_fini(struct fan_operations *operations);

#endif
