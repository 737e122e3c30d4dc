/* Room for a file that is about to be written through a mapping. */
#ifndef FAN_CLIENT_RESERVE_H
#define FAN_CLIENT_RESERVE_H

#include <stdint.h>

/* Makes an empty file `bytes` long and takes the room for it, since a page that cannot be had when it
 * is first stored to is SIGBUS. Where the file system cannot do that (ext3, NFS) only the length is
 * set, and fan_copy tells of a missing page. 0 or -errno: -ENOSPC, of a memory file where there is
 * no memory. RLIMIT_FSIZE must allow it. Safe in signal handlers and vfork children. */
int fan_reserve(int fd, uint64_t bytes);

#endif
