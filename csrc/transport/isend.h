/*
 * MPI_Isend that survives a rank whose connection is broken.
 *
 * MPICH (ch4, seen with 5.0.2 over UCX and TCP) follows a null pointer inside MPI_Isend if the
 * network layer refuses to send, before it can return the error. This file turns that fault into
 * the error that it hides.
 */
#ifndef FAN_TRANSPORT_ISEND_H
#define FAN_TRANSPORT_ISEND_H

#include <mpi.h>

/* Installs the SIGSEGV handler. Call it once in each process, before the first fan_isend. Faults
 * outside MPI_Isend go to the previous handler. Returns 0 or -errno. */
int fan_isend_init(void);

/* MPI_Isend of bytes, but returns an error instead of faulting. */
int fan_isend(const void *buffer, int bytes, int rank, int tag, MPI_Comm comm,
              MPI_Request *request);

#endif
