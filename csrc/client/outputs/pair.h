/*
 * Does rename and link: operations on two paths, of which at least one lies in a mount.
 */
#pragma once

#include <stdbool.h>

#include "outputs.h"

/* One of the two paths, resolved. ours: what fan_locate_change returned. */
struct fan_end {
    unsigned flags; /* fan_resolve_flags */
    bool ours;
    struct fan_target target;
};

/* The result of the functions below if a link led out of the outputs: the ends have been resolved
 * again, and the caller must start over, at most FAN_END_TURNS_MAX times. */
enum { FAN_END_MOVED = 1, FAN_END_TURNS_MAX = 40 };

/* Resolves a path into an end with fan_locate_change. */
void fan_end_locate(struct fan_end *end, int dirfd, const char *path, unsigned flags);

/* Checks that the directory of an end's last name exists. Returns 0, -errno, FAN_END_MOVED. */
int fan_end_reached(struct fan_end *end);

/* Checks that the end exists. Returns 0, -errno, FAN_END_MOVED. */
int fan_end_exists(struct fan_end *end);

/* Asks the daemon to do the operation of `call` on two ends, both in mounts: FAN_BEYOND, or an
 * input. Returns 0, -errno, FAN_END_MOVED. */
int fan_output_pair(struct fan_output_call *call, struct fan_end *from, struct fan_end *to);
