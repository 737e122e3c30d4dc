/*
 * Descriptors that come from other processes, in a message or past a program without the library.
 */
#ifndef FAN_CLIENT_RECEIVED_H
#define FAN_CLIENT_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct fan_view;

/* Whatever stood under this number is forgotten; where the descriptor is a copy of an input of this
 * job, an output, or a directory of a mount, it stands for that from now on. */
void fan_received(int fd);

/* `st` is that of a file without a name. If it is a copy of an input that is not in the table yet,
 * enters it there and returns true. Leaves errno alone. */
bool fan_received_late(int fd, const struct stat *st);

/* Whether a descriptor is a real copy of this file. */
bool fan_is_copy_of(int fd, const struct fan_view *view, uint64_t id);

#endif
