#include "operations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int fan_mpi_errno(int mpi_error)
{
    int class = MPI_ERR_OTHER;
    MPI_Error_class(mpi_error, &class);
    return class == MPI_ERR_TRUNCATE ? EPROTO : EHOSTUNREACH;
}

void fan_mpi_keep_alive(MPI_Comm comm)
{
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

/* From the draft of MPI's fault tolerance (ULFM); weak, because not every MPI has it. */
extern int MPIX_Comm_failure_ack(MPI_Comm comm) __attribute__((weak));

void fan_mpi_go_on(MPI_Comm comm)
{
    if (MPIX_Comm_failure_ack != NULL)
        MPIX_Comm_failure_ack(comm);
}

static int grow_array(void *array, size_t capacity, size_t each)
{
    void *grown = realloc(*(void **)array, capacity * each);
    if (grown == NULL)
        return -ENOMEM;
    *(void **)array = grown;
    return 0;
}

static int grow(struct fan_operations *operations)
{
    size_t capacity = operations->capacity > 0 ? (size_t)operations->capacity * 2 : 64;
    if (grow_array(&operations->active, capacity, sizeof(*operations->active)) != 0 ||
        grow_array(&operations->requests, capacity, sizeof(*operations->requests)) != 0 ||
        grow_array(&operations->statuses, capacity, sizeof(*operations->statuses)) != 0 ||
        grow_array(&operations->indices, capacity, sizeof(*operations->indices)) != 0 ||
        grow_array(&operations->completed, capacity, sizeof(*operations->completed)) != 0)
        return -ENOMEM;
    operations->capacity = (int)capacity;
    return 0;
}

static struct fan_operation *take_free(struct fan_operations *operations)
{
    struct fan_operation *operation = operations->free;
    if (operation == NULL)
        return calloc(1, sizeof(*operation));
    operations->free = operation->next_free;
    memset(operation, 0, sizeof(*operation));
    return operation;
}

struct fan_operation *fan_operation_begin(struct fan_operations *operations,
                                          enum fan_operation_kind kind)
{
    if (operations->count == operations->capacity && grow(operations) != 0)
        return NULL;
    struct fan_operation *operation = take_free(operations);
    if (operation == NULL)
        return NULL;
    operation->kind = kind;
    operation->index = operations->count++;
    operations->active[operation->index] = operation;
    operations->requests[operation->index] = MPI_REQUEST_NULL;
    return operation;
}

int fan_operation_receive(struct fan_operations *operations, struct fan_operation *operation,
                          MPI_Message *matched, const MPI_Status *status, void *to, int most)
{
    int bytes = 0;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    if (bytes == MPI_UNDEFINED) /* the count does not fit into an int */
        return -ENOMEM;
    if (bytes > most) {
        operation->discard = malloc((size_t)bytes);
        if (operation->discard == NULL)
            return -ENOMEM;
        to = operation->discard;
        most = bytes;
    }
    int rc = MPI_Imrecv(to, most, MPI_BYTE, matched, fan_operation_request(operations, operation));
    return rc == MPI_SUCCESS ? 0 : -fan_mpi_errno(rc);
}

void fan_operation_end(struct fan_operations *operations, struct fan_operation *operation)
{
    int hole = operation->index;
    int last = --operations->count;
    operations->active[hole] = operations->active[last];
    operations->active[hole]->index = hole;
    operations->requests[hole] = operations->requests[last];
    free(operation->discard);
    operation->discard = NULL;
    operation->tag = 0; /* an operation that still points here sees that the fetch is over */
    operation->next_free = operations->free;
    operations->free = operation;
}

static bool is_receive(const struct fan_operation *operation)
{
    return operation->kind == FAN_OPERATION_FETCH || operation->kind == FAN_OPERATION_DISCARD;
}

struct fan_operation *fan_operation_tagged(const struct fan_operations *operations, uint32_t tag)
{
    for (int i = 0; i < operations->count; i++)
        if (is_receive(operations->active[i]) && operations->active[i]->tag == tag)
            return operations->active[i];
    return NULL;
}

struct fan_operation *fan_operation_of_token(const struct fan_operations *operations,
                                             uint64_t token)
{
    for (int i = 0; i < operations->count; i++) {
        struct fan_operation *operation = operations->active[i];
        if (operation->kind == FAN_OPERATION_FETCH && operation->token == token)
            return operation;
    }
    return NULL;
}

/* Clears the errors in the statuses: MPI sets those of single requests only if it reports
 * MPI_ERR_IN_STATUS. */
static void clear_errors(MPI_Status *statuses, int count)
{
    for (int i = 0; i < count; i++)
        statuses[i].MPI_ERROR = MPI_SUCCESS;
}

int fan_operations_round(struct fan_operations *operations)
{
    int done = 0;
    int rc = MPI_Testsome(operations->count, operations->requests, &done, operations->indices,
                          operations->statuses);
    int class = MPI_SUCCESS;
    if (rc != MPI_SUCCESS)
        MPI_Error_class(rc, &class);
    if (class != MPI_SUCCESS && class != MPI_ERR_IN_STATUS)
        return -EIO;
    if (done == MPI_UNDEFINED)
        return 0;
    if (class == MPI_SUCCESS)
        clear_errors(operations->statuses, done);
    for (int i = 0; i < done; i++)
        operations->completed[i] = operations->active[operations->indices[i]];
    return done;
}

void fan_operations_fini(struct fan_operations *operations)
{
    while (operations->free != NULL) {
        struct fan_operation *operation = operations->free;
        operations->free = operation->next_free;
        free(operation);
    }
    free(operations->active);
    free(operations->requests);
    free(operations->statuses);
    free(operations->indices);
    free(operations->completed);
    memset(operations, 0, sizeof(*operations));
}
