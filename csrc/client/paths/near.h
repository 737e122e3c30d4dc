/*
 * Open directories outside: which of them are surely neither in a mount nor above one, told by what
 * they are and not by a path, for that costs the kernel eight times as much.
 */
#ifndef FAN_CLIENT_NEAR_H
#define FAN_CLIENT_NEAR_H

#include <stdbool.h>
#include <sys/stat.h>

/* Whether a directory is no mount's, no skeleton's, and above no mount. false: it may be. */
bool fan_is_far_directory(const struct stat *st);

/* The same of a descriptor; of what is no directory true. One system call. */
bool fan_is_far_fd(int fd);

#endif
