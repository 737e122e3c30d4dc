/*
 * Does what remote_bare.c does through FanStore's transport, whose functions are linked in.
 *
 *     remote_transport BYTES OUTSTANDING COUNT ROUNDS     under mpiexec -n 2
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../csrc/node/machine/transport.h"
#include "../../../csrc/transport/mpi_transport.h"
#include "clock.h"

enum { EVENTS = 64, OUTSTANDING_MAX = 64 };

static struct fan_transport *transport;
static uint32_t bytes;
static char *buffer;

static void must(int rc)
{
    if (rc < 0) {
        fprintf(stderr, "remote_transport: error %d\n", -rc);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static void ask(uint64_t slot)
{
    struct fan_fetch_request request = {.offset = slot * bytes, .bytes = bytes};
    must(transport->fetch(transport->context, 1, &request, buffer + slot * bytes, slot));
}

static void fetch_round(int outstanding, int count)
{
    struct fan_transport_event events[EVENTS];
    int asked = 0;
    for (; asked < outstanding && asked < count; asked++)
        ask((uint64_t)asked);
    for (int done = 0; done < count;) {
        int found = transport->poll(transport->context, events, EVENTS);
        must(found);
        for (int i = 0; i < found; i++) {
            must(events[i].error);
            done++;
            if (asked < count) {
                asked++;
                ask(events[i].token);
            }
        }
    }
}

static void answer_round(int count)
{
    struct fan_transport_event events[EVENTS];
    for (int sent = 0; sent < count;) {
        int found = transport->poll(transport->context, events, EVENTS);
        must(found);
        for (int i = 0; i < found; i++) {
            const struct fan_transport_event *event = &events[i];
            if (event->kind == FAN_EVENT_REQUEST)
                must(transport->reply(transport->context, 0, &event->request,
                                      buffer + event->request.offset, 0));
            sent += event->kind == FAN_EVENT_SENT;
        }
    }
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int outstanding = argc == 5 ? atoi(argv[2]) : 0;
    if (outstanding <= 0 || outstanding > OUTSTANDING_MAX || atoi(argv[1]) <= 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    bytes = (uint32_t)atoi(argv[1]);
    int count = atoi(argv[3]), rounds = atoi(argv[4]);
    must(fan_transport_open(MPI_Comm_c2f(MPI_COMM_WORLD), &transport));
    buffer = malloc((size_t)bytes * outstanding);
    if (buffer == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buffer, 7, (size_t)bytes * outstanding);
    for (int round = 0; round < rounds; round++) {
        uint64_t start_ns = now_ns();
        if (transport->rank == 0)
            fetch_round(outstanding, count);
        else
            answer_round(count);
        if (transport->rank == 0)
            printf("%.0f\n", (double)(now_ns() - start_ns) / count);
    }
    free(buffer);
    fan_transport_close(transport);
    return MPI_Finalize();
}
