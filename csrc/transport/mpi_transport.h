/*
 * The transport of csrc/node/machine/transport.h over MPI, in a library of its own: it is built
 * with the site's MPI, and jobs on one node do not load it.
 *
 * Only this code uses the communicator. No function blocks, and no MPI error ends the process: a
 * failure of one rank becomes the error of the operations outstanding there. Requests and notices
 * arrive on one tag, messages on another (mail.h), and each answer on a tag of its own, straight
 * into the memory that the caller gave. A fetch that was given up keeps its tag until its answer
 * has arrived and was discarded, so that a late sender neither hangs nor answers a later fetch.
 */
#pragma once

#include <stdint.h>

#pragma GCC visibility push(default)

/* cffi: begin */
struct fan_transport;

/* Opens a transport over the communicator with this Fortran handle. Returns 0, -ENXIO (this
 * library's MPI was not started, or another MPI was), -ENOMEM or -EIO. */
int fan_transport_open(int fortran_comm, struct fan_transport **transport);

/* Where a rank is rung (bells.h), as bytes that the ranks exchange. */
enum { FAN_BELL_BYTES = 32 };

/* Writes FAN_BELL_BYTES: where this rank is rung. */
void fan_transport_bell(const struct fan_transport *transport, void *bell);

/* Tells where all ranks are rung: FAN_BELL_BYTES for each, in the order of ranks. Without this call
 * no rank is rung. Returns 0 or -ENOMEM. */
int fan_transport_meet(const struct fan_transport *transport, const void *bells);

/* Calls the transport's own `close`, which frees everything that MPI no longer uses, without
 * waiting. For callers that do not know struct fan_transport. Accepts NULL. */
void fan_transport_close(struct fan_transport *transport);

/* Returns the MPI library's version text, or NULL. Works before MPI is started. */
const char *fan_transport_library_version(void);

/* Returns the number of messages that were dropped because they were malformed. */
uint64_t fan_transport_ill_formed(const struct fan_transport *transport);
/* cffi: end */

#pragma GCC visibility pop
