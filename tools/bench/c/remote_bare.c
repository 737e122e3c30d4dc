/*
 * Requests and replies over bare MPI, with the sizes of FanStore's: a small request, then the
 * bytes, `outstanding` of them at once. FanStore's transport is compared with this.
 *
 *     remote_bare BYTES OUTSTANDING COUNT ROUNDS     under mpiexec -n 2
 *
 * Rank 0 prints the nanoseconds per fetch, one line for each round.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

enum { ASK = 0, MESSAGE_BYTES = 48, OUTSTANDING_MAX = 64 };

static void ask(int slot, char *to, int bytes, MPI_Request *request)
{
    static char messages[OUTSTANDING_MAX][MESSAGE_BYTES];
    MPI_Irecv(to, bytes, MPI_BYTE, 1, slot + 1, MPI_COMM_WORLD, request);
    memcpy(messages[slot], &slot, sizeof(slot));
    MPI_Send(messages[slot], MESSAGE_BYTES, MPI_BYTE, 1, ASK, MPI_COMM_WORLD);
}

static void fetch_round(char *buffer, int bytes, int outstanding, int count)
{
    MPI_Request requests[OUTSTANDING_MAX];
    int asked = 0;
    for (; asked < outstanding && asked < count; asked++)
        ask(asked, buffer + (size_t)asked * bytes, bytes, &requests[asked]);
    for (int done = 0; done < count; done++) {
        int slot;
        MPI_Waitany(outstanding, requests, &slot, MPI_STATUS_IGNORE);
        if (asked < count) {
            asked++;
            ask(slot, buffer + (size_t)slot * bytes, bytes, &requests[slot]);
        }
    }
}

static void answer_round(const char *buffer, int bytes, int outstanding, int count)
{
    MPI_Request requests[OUTSTANDING_MAX];
    for (int i = 0; i < outstanding; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int done = 0; done < count; done++) {
        int slot;
        char message[MESSAGE_BYTES];
        MPI_Recv(message, MESSAGE_BYTES, MPI_BYTE, 0, ASK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        memcpy(&slot, message, sizeof(slot));
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        MPI_Isend(buffer + (size_t)slot * bytes, bytes, MPI_BYTE, 0, slot + 1, MPI_COMM_WORLD,
                  &requests[slot]);
    }
    MPI_Waitall(outstanding, requests, MPI_STATUSES_IGNORE);
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    int bytes = argc == 5 ? atoi(argv[1]) : 0, outstanding = argc == 5 ? atoi(argv[2]) : 0;
    if (bytes <= 0 || outstanding <= 0 || outstanding > OUTSTANDING_MAX)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int count = atoi(argv[3]), rounds = atoi(argv[4]);
    char *buffer = malloc((size_t)bytes * outstanding);
    if (buffer == NULL)
        MPI_Abort(MPI_COMM_WORLD, 1);
    memset(buffer, 7, (size_t)bytes * outstanding);
    for (int round = 0; round < rounds; round++) {
        uint64_t start_ns = now_ns();
        if (rank == 0)
            fetch_round(buffer, bytes, outstanding, count);
        else
            answer_round(buffer, bytes, outstanding, count);
        if (rank == 0)
            printf("%.0f\n", (double)(now_ns() - start_ns) / count);
    }
    free(buffer);
    return MPI_Finalize();
}
