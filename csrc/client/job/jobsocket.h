/*
 * Connects to the node daemon's sockets in the job directory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../machine/clock.h"

/* Connects `link` to the socket `name` of the job directory, whose path may be longer than a socket
 * address. If interrupted, tries again until `until_ns`. Returns 0 or -errno. */
int fan_job_connect(int link, const char *name, int64_t until_ns);

/* Returns whether a call that was interrupted may be made again. */
bool fan_interrupted(long rc, int64_t until_ns);
