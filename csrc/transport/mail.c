#include "mail.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "isend.h"

enum {
    HEARD_A_ROUND = 16,
    HEAD_BYTES = sizeof(struct fan_wire_mail),
    UNDER_WAY = 1 /* in place of an error: the message has not arrived completely */
};

int fan_mail_init(struct fan_mail *mail, MPI_Comm comm, uint32_t world_size)
{
    mail->comm = comm;
    mail->world_size = world_size;
    mail->ranks = calloc(world_size, sizeof(*mail->ranks));
    return mail->ranks != NULL ? 0 : -ENOMEM;
}

int fan_mail_send(struct fan_mail *mail, struct fan_message *message)
{
    if (message->rank >= mail->world_size || message->bytes > FAN_MESSAGE_MAX_BYTES)
        return -EINVAL;
    struct fan_mail_rank *rank = &mail->ranks[message->rank];
    struct fan_operation *operation = fan_operation_begin(&mail->operations, FAN_OPERATION_SEND);
    if (operation == NULL)
        return -ENOMEM;
    operation->mail = message;
    fan_wire_seal(message, rank->sent);
    int rc = fan_isend(message->head, HEAD_BYTES + (int)message->bytes, (int)message->rank,
                       FAN_TAG_MAIL, mail->comm,
                       fan_operation_request(&mail->operations, operation));
    if (rc != MPI_SUCCESS) {
        fan_operation_end(&mail->operations, operation);
        return -fan_mpi_errno(rc);
    }
    rank->sent++;
    return 0;
}

/* ---- receiving ---- */

/* Allocates memory for a message of `bytes`, including its head. If the message is too long, or
 * memory is short, allocates room for the head alone. */
static struct fan_message *make_room(int bytes)
{
    struct fan_message *message = NULL;
    if (bytes > HEAD_BYTES && bytes <= HEAD_BYTES + FAN_MESSAGE_MAX_BYTES)
        message = malloc(sizeof(*message) + (size_t)(bytes - HEAD_BYTES));
    bool fits = message != NULL;
    if (!fits)
        message = malloc(sizeof(*message));
    if (message == NULL)
        return NULL;
    memset(message, 0, sizeof(*message));
    message->bytes = fits ? (uint64_t)(bytes - HEAD_BYTES) : 0;
    message->error = UNDER_WAY;
    return message;
}

/* Returns the first message of a queue; NULL if it is empty. The link is the first member of a
 * message. */
static struct fan_message *first_of(const struct fan_queue *messages)
{
    return (struct fan_message *)messages->first;
}

/* Reports the messages of one rank that have arrived completely, in order. */
static void pass_on(struct fan_mail *mail, struct fan_mail_rank *rank)
{
    struct fan_message *first;
    while ((first = first_of(&rank->coming)) != NULL && first->error != UNDER_WAY)
        fan_queue_put(&mail->arrived, fan_queue_take(&rank->coming));
}

static int receive(struct fan_mail *mail, struct fan_operation *operation, MPI_Message *matched,
                   const MPI_Status *status)
{
    int bytes = 0;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    struct fan_message *message = make_room(bytes);
    if (message == NULL)
        return -ENOMEM;
    struct fan_mail_rank *rank = &mail->ranks[status->MPI_SOURCE];
    message->rank = (uint32_t)status->MPI_SOURCE;
    operation->mail = message;
    operation->token = rank->heard++;
    fan_queue_put(&rank->coming, &message->link);
    int rc = fan_operation_receive(&mail->operations, operation, matched, status, message->head,
                                   HEAD_BYTES + (int)message->bytes);
    if (rc == 0)
        return 0;
    message->error = rc;
    pass_on(mail, rank);
    return -EIO;
}

/* Begins to receive one message if one has arrived. Returns 1, 0 if there is none, or -errno. */
static int listen_once(struct fan_mail *mail)
{
    struct fan_operation *operation =
        fan_operation_begin(&mail->operations, FAN_OPERATION_RECEIVE);
    if (operation == NULL)
        return 0;
    int found = 0;
    MPI_Message matched = MPI_MESSAGE_NULL;
    MPI_Status status;
    int rc = MPI_Improbe(MPI_ANY_SOURCE, FAN_TAG_MAIL, mail->comm, &found, &matched, &status);
    if (rc != MPI_SUCCESS) {
        found = 0;
        fan_mpi_go_on(mail->comm);
    }
    if (found && receive(mail, operation, &matched, &status) == 0)
        return 1;
    fan_operation_end(&mail->operations, operation);
    return rc == MPI_SUCCESS && !found ? 0 : -EIO;
}

static void received(struct fan_mail *mail, const struct fan_operation *operation,
                     const MPI_Status *status)
{
    struct fan_message *message = operation->mail;
    int bytes = 0;
    if (status->MPI_ERROR == MPI_SUCCESS) {
        MPI_Get_count(status, MPI_BYTE, &bytes);
        message->error = fan_wire_open(message, (size_t)bytes, operation->token);
    } else {
        message->error = -fan_mpi_errno(status->MPI_ERROR);
    }
    mail->ill_formed += message->error == -EPROTO;
}

/* Handles the end of a send. If it failed, reports that message as lost to the caller. */
static void sent(struct fan_mail *mail, const struct fan_operation *operation,
                 const MPI_Status *status)
{
    if (status->MPI_ERROR == MPI_SUCCESS) {
        free(operation->mail);
        return;
    }
    operation->mail->error = -fan_mpi_errno(status->MPI_ERROR);
    fan_queue_put(&mail->arrived, &operation->mail->link);
}

static void complete(struct fan_mail *mail, const struct fan_operation *operation,
                     const MPI_Status *status)
{
    if (operation->kind == FAN_OPERATION_SEND) {
        sent(mail, operation, status);
        return;
    }
    struct fan_mail_rank *rank = &mail->ranks[operation->mail->rank];
    received(mail, operation, status);
    pass_on(mail, rank);
}

static int advance(struct fan_mail *mail)
{
    struct fan_operations *operations = &mail->operations;
    int done = operations->count > 0 ? fan_operations_round(operations) : 0;
    for (int i = 0; i < done; i++) {
        complete(mail, operations->completed[i], &operations->statuses[i]);
        fan_operation_end(operations, operations->completed[i]);
    }
    return done < 0 ? done : 0;
}

int fan_mail_round(struct fan_mail *mail)
{
    int heard = 1;
    for (int count = 0; count < HEARD_A_ROUND && heard > 0; count++)
        heard = listen_once(mail);
    int rc = advance(mail);
    return heard < 0 ? heard : rc;
}

int fan_mail_events(struct fan_mail *mail, struct fan_transport_event *events, int count)
{
    int filled = 0;
    while (mail->arrived.count > 0 && filled < count) {
        struct fan_message *message = (struct fan_message *)fan_queue_take(&mail->arrived);
        events[filled++] = (struct fan_transport_event){
            .kind = FAN_EVENT_MESSAGE,
            .rank = message->rank,
            .error = message->error,
            .message = message->error == 0 ? message : NULL,
        };
        if (message->error != 0)
            free(message);
    }
    return filled;
}

void fan_mail_fini(struct fan_mail *mail)
{
    advance(mail);
    fan_operations_fini(&mail->operations);
    for (struct fan_queued *message; (message = fan_queue_take(&mail->arrived)) != NULL;)
        free(message);
    free(mail->ranks);
}
