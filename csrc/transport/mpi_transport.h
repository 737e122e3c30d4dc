/*
 * The transport of csrc/node/machine/transport.h over MPI, in a library of its own: it is built
 * with the site's MPI and loaded by nobody who has but one node.
 *
 * The communicator is ours alone. No function blocks, and no MPI error ends the process: what goes
 * wrong with one rank is the error of what was outstanding there. Requests and notices arrive on
 * one tag, messages on another (mail.h), each answer on a tag of its own, straight into the place
 * that the caller gave. A fetch that was given up keeps its tag until its answer came and was
 * discarded, so that an owner that goes on late is neither stuck nor heard by a later fetch.
 */
#ifndef FAN_TRANSPORT_MPI_TRANSPORT_H
#define FAN_TRANSPORT_MPI_TRANSPORT_H

#include <stdint.h>

#pragma GCC visibility push(default)

/* cffi: begin */
struct fan_transport;

/* Opens a transport over the communicator with this Fortran handle. 0, -ENXIO (this library's MPI
 * is not the one that was started, or not started), -ENOMEM or -EIO. */
int fan_transport_open(int fortran_comm, struct fan_transport **transport);

/* The transport's own `close`, for those who cannot see it: frees what MPI has let go of, without
 * waiting. Accepts NULL. */
void fan_transport_close(struct fan_transport *transport);

/* What the MPI library calls itself, or NULL. Before MPI is started, too. */
const char *fan_transport_library_version(void);

/* How many messages were dropped because they made no sense. */
uint64_t fan_transport_ill_formed(const struct fan_transport *transport);
/* cffi: end */

#pragma GCC visibility pop

#endif
