/* Inputs as real files, for processes that the library cannot enter: a copy each, in memory, or on
 * the local disk where it is large. Its name says what it is a copy of (origin.h). */
#ifndef FAN_TRAP_COPY_H
#define FAN_TRAP_COPY_H

#include "../client/files/filetable.h"

/* A descriptor of a copy with a description of its own, at the start, with the status flags of
 * `flags`. -errno: -EIO, -ENOSPC or -ENOMEM where there is no room. */
int fan_copy_open(struct fan_file *file, int flags);

/* A copy that stays under the name `path`, in `mode`. 0 or -errno. */
int fan_copy_file(struct fan_file *file, const char *path, unsigned mode);

/* A descriptor that only names the file: O_PATH's own cannot be handed over. It is written to in
 * vain (EPERM) and not read (EBADF). */
int fan_copy_path(const struct fan_file *file);

/* Another description of an open file, closed on exec. */
int fan_reopen(int fd, int flags);

#endif
