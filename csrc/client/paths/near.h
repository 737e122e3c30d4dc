/*
 * Finds out which open directories outside are surely neither in a mount nor above one. It looks at
 * their attributes and not at their path, which costs the kernel eight times as much.
 */
#ifndef FAN_CLIENT_NEAR_H
#define FAN_CLIENT_NEAR_H

#include <stdbool.h>
#include <sys/stat.h>

/* Whether a directory surely lies in no mount and no skeleton, and above no mount. false: not sure.
 */
bool fan_is_far_directory(const struct stat *st);

/* The same for a descriptor; true if it is no directory. One system call. */
bool fan_is_far_fd(int fd);

#endif
