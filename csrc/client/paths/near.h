/*
 * Finds out which open directories outside are surely neither in a mount nor above one. It looks at
 * their attributes and not at their path, which costs the kernel eight times as much.
 */
#ifndef FAN_CLIENT_NEAR_H
#define FAN_CLIENT_NEAR_H

#include <stdbool.h>

/* Whether a descriptor is surely of no directory, or of one that lies in no mount and no skeleton,
 * and above no mount. false: not sure. One system call. */
bool fan_is_far_fd(int fd);

#endif
