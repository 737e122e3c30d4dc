/* Room for a file that is about to be written through a mapping. */
#ifndef FAN_CLIENT_RESERVE_H
#define FAN_CLIENT_RESERVE_H

#include <stdbool.h>
#include <stdint.h>

/* Whether RLIMIT_FSIZE lets a file grow so far; growing it beyond would raise SIGXFSZ. */
bool fan_file_limit_allows(uint64_t bytes);

/* Makes an empty file `bytes` long and takes the room for it, since a page that cannot be had when it
 * is first stored to is SIGBUS. Where the file system cannot do that (ext3, NFS) only the length is
 * set, and fan_copy tells of a missing page. 0 or -errno: -ENOSPC, of a memory file where there is
 * no memory. RLIMIT_FSIZE must allow it. Safe in signal handlers and vfork children. */
int fan_reserve(int fd, uint64_t bytes);

#endif
