/*
 * Outputs that were handed to processes: their descriptors are the kernel's own, and stat must show
 * them under the numbers that the mount gives them.
 */
#ifndef FAN_TRAP_OUTPUTS_SEEN_H
#define FAN_TRAP_OUTPUTS_SEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "../client/files/filetable.h"

/* Notes an output that is about to be handed out. */
void fan_seen_note(const struct fan_file *file);

/* Whether `link`, where a descriptor's link of /proc leads, is an output's: `st` is filled. */
bool fan_seen_stat(pid_t tid, int fd, const char *link, struct stat *st);

#endif
