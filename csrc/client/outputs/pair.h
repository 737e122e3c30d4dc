/*
 * rename and link: two paths, of which at least one lies in a mount.
 */
#ifndef FAN_CLIENT_PAIR_H
#define FAN_CLIENT_PAIR_H

#include <stdbool.h>

#include "outputs.h"

/* A path, resolved: `ours`, or outside. */
struct fan_end {
    unsigned flags; /* fan_resolve_flags */
    bool ours;
    struct fan_target target;
};

/* The functions below return this when a link led out of the outputs: the ends are resolved anew,
 * and the call is to be decided again, FAN_END_TURNS_MAX times at most. */
enum { FAN_END_MOVED = 1, FAN_END_TURNS_MAX = 40 };

/* fan_locate_change into an end. */
void fan_end_locate(struct fan_end *end, int dirfd, const char *path, unsigned flags);

/* Whether the directory of an end's last name is there. 0, -errno, FAN_END_MOVED. */
int fan_end_reached(struct fan_end *end);

/* Whether the end is there. 0, -errno, FAN_END_MOVED. */
int fan_end_exists(struct fan_end *end);

/* Has the daemon do the operation of `call` on two ends, both in mounts: FAN_BEYOND, or an input.
 * 0, -errno, FAN_END_MOVED. */
int fan_output_pair(struct fan_output_call *call, struct fan_end *from, struct fan_end *to);

#endif
