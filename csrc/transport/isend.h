/*
 * MPI_Isend that survives a rank whose connection is broken.
 *
 * MPICH (ch4, seen with 5.0.2 over UCX and TCP) follows a null pointer inside MPI_Isend when the
 * network layer refuses to send, before it could return the error. That fault is turned into the
 * error that it hides; any other goes where it went before.
 */
#ifndef FAN_TRANSPORT_ISEND_H
#define FAN_TRANSPORT_ISEND_H

#include <mpi.h>

/* Once a process, before the first fan_isend: handles SIGSEGV, passing on what is not ours. 0 or
 * -errno. */
int fan_isend_init(void);

/* As MPI_Isend of bytes. */
int fan_isend(const void *buffer, int bytes, int rank, int tag, MPI_Comm comm,
              MPI_Request *request);

#endif
