#include "mpi_transport.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "bells.h"
#include "isend.h"
#include "mail.h"
#include "marks.h"
#include "operations.h"

enum {
    HEARD_A_ROUND = 16,    /* the most messages received before the caller fetches its events */
    FAILED_ROUNDS_MAX = 64 /* after this many failures in a row, MPI counts as broken */
};

struct context {
    struct fan_transport transport;
    MPI_Comm comm;
    struct fan_operations operations;
    struct fan_mail mail;
    struct fan_bells bells;
    struct fan_transport_event *ready; /* events of the last round, until the caller fetches them */
    int ready_first;
    int ready_count;
    int ready_capacity;
    int failed_rounds;
    uint32_t tag_max;
    uint32_t next_tag;
    bool tags_wrapped;
    uint64_t ill_formed;
    uint64_t mark; /* random, so that no answer contains it */
};

/* ---- asking ---- */

/* Returns a tag that no operation uses; 0 if all are in use. */
static uint32_t unused_tag(struct context *context)
{
    for (int tries = 0; tries <= context->operations.count; tries++) {
        uint32_t tag = context->next_tag;
        context->tags_wrapped |= tag == context->tag_max;
        context->next_tag = tag == context->tag_max ? FAN_TAG_FIRST_ANSWER : tag + 1;
        if (!context->tags_wrapped || fan_operation_tagged(&context->operations, tag) == NULL)
            return tag;
    }
    return 0;
}

static void *landing_of(struct fan_operation *fetch)
{
    return fetch->bytes > FAN_SMALL_FETCH_BYTES ? fetch->to : fetch->buffer.small;
}

/* Receives an answer. One of another length is an error. (Open MPI writes an answer that is too
 * long past the end of `landing`, although it reports it as truncated; no rank sends one.) */
static int receive_answer(struct context *context, struct fan_operation *fetch, void *landing)
{
    uint32_t refusal_bytes = fan_wire_refusal_bytes(fetch->bytes);
    uint32_t most = fetch->bytes > refusal_bytes ? fetch->bytes : refusal_bytes;
    int rc = MPI_Irecv(landing, (int)most, MPI_BYTE, (int)fetch->rank, (int)fetch->tag,
                       context->comm, fan_operation_request(&context->operations, fetch));
    return rc == MPI_SUCCESS ? 0 : -fan_mpi_errno(rc);
}

/* Sends `bytes` of the operation's own buffer. If that fails, ends the operation. */
static int send_message(struct context *context, struct fan_operation *message, uint32_t rank,
                        uint32_t tag, uint32_t bytes)
{
    int rc = fan_isend(&message->buffer, (int)bytes, (int)rank, (int)tag, context->comm,
                       fan_operation_request(&context->operations, message));
    fan_bells_note(&context->bells, rank);
    if (rc == MPI_SUCCESS)
        return 0;
    fan_operation_end(&context->operations, message);
    return -fan_mpi_errno(rc);
}

static int send_request(struct context *context, struct fan_operation *fetch,
                        const struct fan_fetch_request *request)
{
    struct fan_operation *message =
        fan_operation_begin(&context->operations, FAN_OPERATION_MESSAGE);
    if (message == NULL)
        return -ENOMEM;
    message->buffer.message = fan_wire_request(request, fetch->tag);
    message->asks_for = fetch;
    message->tag = fetch->tag;
    return send_message(context, message, fetch->rank, FAN_TAG_NOTES,
                        sizeof(message->buffer.message));
}

/* Gives up a fetch that nobody will answer. Its FETCHED event must wait until its receive is no
 * longer posted. */
static void abandon(struct context *context, struct fan_operation *fetch, int error)
{
    fetch->error = error;
    MPI_Cancel(fan_operation_request(&context->operations, fetch));
}

static int fetch(void *opaque, uint32_t rank, const struct fan_fetch_request *request, void *to,
                 uint64_t token)
{
    struct context *context = opaque;
    if (rank >= context->transport.world_size || request->bytes == 0 ||
        request->bytes > INT32_MAX)
        return -EINVAL;
    uint32_t tag = unused_tag(context);
    struct fan_operation *fetch =
        tag == 0 ? NULL : fan_operation_begin(&context->operations, FAN_OPERATION_FETCH);
    if (fetch == NULL)
        return -ENOMEM;
    fetch->rank = rank;
    fetch->tag = tag;
    fetch->bytes = request->bytes;
    fetch->to = to;
    fetch->token = token;
    if (fetch->bytes > FAN_SMALL_FETCH_BYTES)
        fan_marks_put(context->mark, to, fetch->bytes);
    int rc = receive_answer(context, fetch, landing_of(fetch));
    if (rc != 0) {
        fan_operation_end(&context->operations, fetch);
        return rc;
    }
    rc = send_request(context, fetch, request);
    if (rc != 0)
        abandon(context, fetch, rc);
    return 0;
}

static int cancel(void *opaque, uint64_t token)
{
    struct context *context = opaque;
    struct fan_operation *fetch = fan_operation_of_token(&context->operations, token);
    if (fetch == NULL)
        return -ENOENT;
    if (fetch->given_up)
        return 0;
    if (fetch->bytes > FAN_SMALL_FETCH_BYTES) {
        fetch->discard = malloc(fetch->bytes);
        if (fetch->discard == NULL)
            return -ENOMEM;
    }
    fetch->given_up = true;
    int rc = MPI_Cancel(fan_operation_request(&context->operations, fetch));
    return rc == MPI_SUCCESS ? 0 : -fan_mpi_errno(rc);
}

static int notify(void *opaque, uint32_t rank, uint32_t notice)
{
    struct context *context = opaque;
    if (rank >= context->transport.world_size)
        return -EINVAL;
    struct fan_operation *message =
        fan_operation_begin(&context->operations, FAN_OPERATION_MESSAGE);
    if (message == NULL)
        return -ENOMEM;
    message->buffer.message = fan_wire_notice(notice);
    return send_message(context, message, rank, FAN_TAG_NOTES, sizeof(message->buffer.message));
}

/* ---- answering ---- */

static bool may_answer(const struct context *context, uint32_t rank,
                       const struct fan_fetch_request *request)
{
    return rank < context->transport.world_size && request->bytes > 0 &&
           request->bytes <= INT32_MAX && request->tag >= FAN_TAG_FIRST_ANSWER &&
           request->tag <= context->tag_max;
}

static int reply(void *opaque, uint32_t rank, const struct fan_fetch_request *request,
                 const void *from, uint64_t token)
{
    struct context *context = opaque;
    if (!may_answer(context, rank, request))
        return -EINVAL;
    struct fan_operation *reply = fan_operation_begin(&context->operations, FAN_OPERATION_REPLY);
    if (reply == NULL)
        return -ENOMEM;
    reply->rank = rank;
    reply->token = token;
    int rc = fan_isend(from, (int)request->bytes, (int)rank, (int)request->tag, context->comm,
                       fan_operation_request(&context->operations, reply));
    fan_bells_note(&context->bells, rank);
    if (rc == MPI_SUCCESS)
        return 0;
    fan_operation_end(&context->operations, reply);
    return -fan_mpi_errno(rc);
}

static int refuse(void *opaque, uint32_t rank, const struct fan_fetch_request *request, int error)
{
    struct context *context = opaque;
    if (!may_answer(context, rank, request))
        return -EINVAL;
    struct fan_operation *message =
        fan_operation_begin(&context->operations, FAN_OPERATION_MESSAGE);
    if (message == NULL)
        return -ENOMEM;
    message->buffer.refusal = fan_wire_refuse(request->tag, error);
    return send_message(context, message, rank, request->tag,
                        fan_wire_refusal_bytes(request->bytes));
}

/* ---- completed operations ---- */

static struct fan_transport_event *add_event(struct context *context,
                                             enum fan_transport_event_kind kind,
                                             const struct fan_operation *operation)
{
    struct fan_transport_event *event = &context->ready[context->ready_count++];
    memset(event, 0, sizeof(*event));
    event->kind = kind;
    event->rank = operation->rank;
    event->token = operation->token;
    return event;
}

static void heard(struct context *context, struct fan_operation *listen, const MPI_Status *status)
{
    int bytes = 0;
    struct fan_transport_event event = {.rank = (uint32_t)status->MPI_SOURCE};
    if (status->MPI_ERROR == MPI_SUCCESS)
        MPI_Get_count(status, MPI_BYTE, &bytes);
    if (fan_wire_read(&listen->buffer, (size_t)bytes, context->tag_max, &event) == 0)
        context->ready[context->ready_count++] = event;
    else
        context->ill_formed++;
    fan_operation_end(&context->operations, listen);
}

/* Makes the answer to a fetch, if it still comes, go to other memory. Its receive is no longer
 * posted, so the caller may use its memory again. */
static void discard_answer(struct context *context, struct fan_operation *fetch)
{
    add_event(context, FAN_EVENT_CANCELLED, fetch);
    fetch->kind = FAN_OPERATION_DISCARD;
    void *landing = fetch->discard != NULL ? fetch->discard : fetch->buffer.small;
    if (receive_answer(context, fetch, landing) != 0)
        fan_operation_end(&context->operations, fetch);
}

static int answer_of(const struct context *context, const struct fan_operation *fetch,
                     const void *landing, const MPI_Status *status)
{
    if (status->MPI_ERROR != MPI_SUCCESS)
        return -fan_mpi_errno(status->MPI_ERROR);
    int bytes = 0;
    MPI_Get_count(status, MPI_BYTE, &bytes);
    int rc = fan_wire_answer(landing, (size_t)bytes, fetch->bytes, fetch->tag);
    if (rc == 0 && fetch->bytes > FAN_SMALL_FETCH_BYTES &&
        fan_marks_left(context->mark, landing, fetch->bytes))
        return -EHOSTUNREACH;
    return rc;
}

static void fetched(struct context *context, struct fan_operation *fetch,
                    const MPI_Status *status)
{
    int cancelled = 0;
    if (status->MPI_ERROR == MPI_SUCCESS)
        MPI_Test_cancelled(status, &cancelled);
    if (cancelled && fetch->error == 0) {
        discard_answer(context, fetch);
        return;
    }
    void *landing = landing_of(fetch);
    int error = cancelled ? fetch->error : answer_of(context, fetch, landing, status);
    if (error == 0 && landing != fetch->to)
        memcpy(fetch->to, landing, fetch->bytes);
    add_event(context, FAN_EVENT_FETCHED, fetch)->error = error;
    fan_operation_end(&context->operations, fetch);
}

/* Handles the end of a sent message. If the send of a request failed, nobody will answer it. (Its
 * fetch may be over, and the operation in use for another one: the tag tells.) */
static void message_sent(struct context *context, struct fan_operation *message,
                         const MPI_Status *status)
{
    struct fan_operation *fetch = message->asks_for;
    if (status->MPI_ERROR != MPI_SUCCESS && fetch != NULL &&
        fetch->kind == FAN_OPERATION_FETCH && fetch->tag == message->tag)
        abandon(context, fetch, -fan_mpi_errno(status->MPI_ERROR));
    fan_operation_end(&context->operations, message);
}

static void reply_sent(struct context *context, struct fan_operation *reply,
                       const MPI_Status *status)
{
    int error = status->MPI_ERROR == MPI_SUCCESS ? 0 : -fan_mpi_errno(status->MPI_ERROR);
    add_event(context, FAN_EVENT_SENT, reply)->error = error;
    fan_operation_end(&context->operations, reply);
}

static void complete(struct context *context, struct fan_operation *operation,
                     const MPI_Status *status)
{
    switch (operation->kind) {
    case FAN_OPERATION_LISTEN:
        heard(context, operation, status);
        break;
    case FAN_OPERATION_MESSAGE:
        message_sent(context, operation, status);
        break;
    case FAN_OPERATION_REPLY:
        reply_sent(context, operation, status);
        break;
    case FAN_OPERATION_FETCH:
        fetched(context, operation, status);
        break;
    case FAN_OPERATION_DISCARD:
    case FAN_OPERATION_SEND: /* mail.c handles the operations of mail */
    case FAN_OPERATION_RECEIVE:
        fan_operation_end(&context->operations, operation);
        break;
    }
}

/* Makes room for an event of every operation, so that a round can report all of them. */
static int make_room(struct context *context)
{
    int capacity = context->operations.capacity;
    if (context->ready_capacity >= capacity)
        return 0;
    void *grown = realloc(context->ready, (size_t)capacity * sizeof(*context->ready));
    if (grown == NULL)
        return -ENOMEM;
    context->ready = grown;
    context->ready_capacity = capacity;
    return 0;
}

/* Begins to receive one message if one has arrived. Returns 1, 0 if there is none, or -errno.
 * Probes for messages and posts no receives in advance: over UCX and TCP, such receives did not
 * always match messages that had arrived before. */
static int listen_once(struct context *context)
{
    struct fan_operation *listen =
        fan_operation_begin(&context->operations, FAN_OPERATION_LISTEN);
    if (listen == NULL)
        return 0;
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    int rc = MPI_Improbe(MPI_ANY_SOURCE, FAN_TAG_NOTES, context->comm, &found, &message, &status);
    if (rc != MPI_SUCCESS)
        fan_mpi_go_on(context->comm);
    if (rc == MPI_SUCCESS && found &&
        fan_operation_receive(&context->operations, listen, &message, &status, &listen->buffer,
                              sizeof(listen->buffer)) == 0)
        return 1;
    fan_operation_end(&context->operations, listen);
    return rc == MPI_SUCCESS && !found ? 0 : -EIO;
}

static int listen_round(struct context *context)
{
    int rc = 1;
    for (int heard = 0; heard < HEARD_A_ROUND && rc > 0; heard++)
        rc = listen_once(context);
    return rc < 0 ? rc : 0;
}

/* Runs one round of MPI. Returns 0, or -errno if MPI is broken. */
static int work(struct context *context)
{
    context->ready_first = context->ready_count = 0;
    int unheard = listen_round(context);
    if (make_room(context) != 0)
        return 0; /* memory may be free again later; nothing is lost until then */
    int done = fan_operations_round(&context->operations);
    int mail = fan_mail_round(&context->mail);
    if (done < 0 || unheard < 0 || mail < 0)
        context->failed_rounds++;
    else
        context->failed_rounds = 0;
    for (int i = 0; i < done; i++)
        complete(context, context->operations.completed[i], &context->operations.statuses[i]);
    return context->failed_rounds > FAILED_ROUNDS_MAX ? -EIO : 0;
}

static int poll(void *opaque, struct fan_transport_event *events, int count)
{
    struct context *context = opaque;
    /* First: a ring tells of messages that came before it. */
    struct fan_bells_look look = fan_bells_look(&context->bells);
    if (context->ready_first == context->ready_count && context->mail.arrived.count == 0) {
        int rc = work(context);
        if (rc != 0)
            return rc;
    }
    int left = context->ready_count - context->ready_first;
    int filled = left < count ? left : count;
    memcpy(events, context->ready + context->ready_first, (size_t)filled * sizeof(*events));
    context->ready_first += filled;
    filled += fan_mail_events(&context->mail, events + filled, count - filled);
    for (int i = 0; i < filled; i++) {
        if (events[i].kind != FAN_EVENT_SENT && events[i].kind != FAN_EVENT_CANCELLED)
            fan_bells_found(&context->bells, &look, events[i].rank);
    }
    return filled;
}

static unsigned pending(void *opaque)
{
    const struct context *context = opaque;
    return (unsigned)context->operations.count + (unsigned)context->mail.operations.count;
}

static int send(void *opaque, struct fan_message *message)
{
    struct context *context = opaque;
    uint32_t rank = message->rank;
    int rc = fan_mail_send(&context->mail, message);
    if (rc == 0)
        fan_bells_note(&context->bells, rank);
    return rc;
}

static int listen(void *opaque, uint32_t *doorbell)
{
    struct context *context = opaque;
    return fan_bells_listen(&context->bells, doorbell);
}

static void ring(void *opaque, bool sleeps)
{
    struct context *context = opaque;
    fan_bells_ring(&context->bells, sleeps);
}

static void ring_again(void *opaque, bool sleeps)
{
    struct context *context = opaque;
    for (int i = 0; i < context->operations.count; i++) {
        const struct fan_operation *each = context->operations.active[i];
        if (each->kind == FAN_OPERATION_FETCH)
            fan_bells_note(&context->bells, each->rank);
    }
    fan_bells_ring(&context->bells, sleeps);
}

static bool is_rung(const void *opaque)
{
    const struct context *context = opaque;
    return fan_bells_reach_all(&context->bells);
}

/* ---- opening and closing ---- */

/* Closes the transport. Leaks everything that MPI may still use (all of it concerns ranks that do
 * not answer), because MPI would write to freed memory. */
static void close_transport(void *opaque)
{
    struct context *context = opaque;
    struct fan_operations *operations = &context->operations;
    int done = fan_operations_round(operations);
    for (int i = 0; i < done; i++)
        fan_operation_end(operations, operations->completed[i]);
    fan_operations_fini(operations);
    fan_mail_fini(&context->mail);
    fan_bells_fini(&context->bells);
    free(context->ready);
    free(context);
}

static int learn_world(struct context *context)
{
    int rank, size, found = 0;
    int *tag_max = NULL;
    if (MPI_Comm_rank(context->comm, &rank) != MPI_SUCCESS ||
        MPI_Comm_size(context->comm, &size) != MPI_SUCCESS ||
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &tag_max, &found) != MPI_SUCCESS || !found)
        return -EIO;
    context->tag_max = (uint32_t)*tag_max;
    context->next_tag = FAN_TAG_FIRST_ANSWER;
    context->transport.rank = (uint32_t)rank;
    context->transport.world_size = (uint32_t)size;
    fan_bells_init(&context->bells, (uint32_t)rank, (uint32_t)size);
    return fan_mail_init(&context->mail, context->comm, (uint32_t)size);
}

static void fill_operations(struct context *context)
{
    struct fan_transport *transport = &context->transport;
    transport->context = context;
    transport->fetch = fetch;
    transport->cancel = cancel;
    transport->reply = reply;
    transport->refuse = refuse;
    transport->notify = notify;
    transport->send = send;
    transport->poll = poll;
    transport->listen = listen;
    transport->ring = ring;
    transport->ring_again = ring_again;
    transport->is_rung = is_rung;
    transport->pending = pending;
    transport->close = close_transport;
}

int fan_transport_open(int fortran_comm, struct fan_transport **transport)
{
    int started = 0;
    if (MPI_Initialized(&started) != MPI_SUCCESS || !started)
        return -ENXIO;
    struct context *context = calloc(1, sizeof(*context));
    if (context == NULL)
        return -ENOMEM;
    context->comm = MPI_Comm_f2c(fortran_comm);
    context->bells.fd = -1;
    if (getrandom(&context->mark, sizeof(context->mark), 0) != sizeof(context->mark)) {
        free(context);
        return -EIO;
    }
    fan_mpi_keep_alive(context->comm);
    fill_operations(context);
    int rc = fan_isend_init();
    if (rc == 0)
        rc = learn_world(context);
    if (rc != 0) {
        close_transport(context);
        return rc;
    }
    *transport = &context->transport;
    return 0;
}

void fan_transport_bell(const struct fan_transport *transport, void *bell)
{
    const struct context *context = transport->context;
    memcpy(bell, &context->bells.own, sizeof(context->bells.own));
}

int fan_transport_meet(const struct fan_transport *transport, const void *bells)
{
    struct context *context = transport->context;
    return fan_bells_meet(&context->bells, bells);
}

void fan_transport_close(struct fan_transport *transport)
{
    if (transport != NULL)
        transport->close(transport->context);
}

const char *fan_transport_library_version(void)
{
    static char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int bytes = 0;
    return MPI_Get_library_version(version, &bytes) == MPI_SUCCESS ? version : NULL;
}

uint64_t fan_transport_ill_formed(const struct fan_transport *transport)
{
    const struct context *context = transport->context;
    return context->ill_formed + context->mail.ill_formed;
}
