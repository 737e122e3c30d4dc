/*
 * Descriptors of the shim's own: moved high, closed on exec, and kept from the program's close,
 * dup2, close_range and closefrom.
 */
#ifndef FAN_CLIENT_PARK_H
#define FAN_CLIENT_PARK_H

#include <stdbool.h>

enum { FAN_PARKED_MAX = 256 };

/* Moves `fd` high and registers it; `fd` itself is closed in any case. The new number or -errno. */
int fan_park(int fd);

/* Closes and forgets a parked descriptor. */
void fan_unpark(int fd);

/* Whether `fd` is one of ours. */
bool fan_is_parked(int fd);

/* Calls close_range(2) for the parts of [first, last] between parked descriptors. 0 or -errno. */
int fan_close_range_around(unsigned first, unsigned last, unsigned flags);

#endif
