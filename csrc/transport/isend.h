/*
 * An MPI_Isend that survives a broken connection to a rank.
 *
 * In MPICH (ch4, seen with 5.0.2 over UCX and TCP), MPI_Isend follows a null pointer if the network
 * layer refuses to send, before it can return the error. fan_isend returns an error instead.
 */
#pragma once

#include <mpi.h>

/* Installs the SIGSEGV handler. Call it once in each process, before the first fan_isend. Faults
 * outside MPI_Isend go to the previous handler. Returns 0 or -errno. */
int fan_isend_init(void);

/* Calls MPI_Isend for bytes; returns an error if that faults. */
int fan_isend(const void *buffer, int bytes, int rank, int tag, MPI_Comm comm,
              MPI_Request *request);
