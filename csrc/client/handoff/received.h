/*
 * Descriptors that come from other processes: in a message, or inherited through a program without
 * the library.
 */
#ifndef FAN_CLIENT_RECEIVED_H
#define FAN_CLIENT_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

struct fan_view;

/* Forgets what stood at this number. If the descriptor is a copy of an input of this job, an
 * output, or a directory of a mount, enters it in the table as such. */
void fan_received(int fd);

/* st: the attributes of `fd`, which is not in the table. If it is a file without a name and a copy
 * of an input, enters it there and returns true. Leaves errno alone. */
bool fan_received_late(int fd, const struct stat *st);

/* Whether a descriptor is a real copy of record `id` of the view. */
bool fan_is_copy_of(int fd, const struct fan_view *view, uint64_t id);

#endif
