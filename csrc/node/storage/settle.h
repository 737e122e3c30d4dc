/*
 * What an earlier job left on the local disk (--keep-staged): its bytes may have rotted, or never
 * have reached the disk. Each record is checked before it is served from there, and brought anew
 * from the shared file system where it is wrong. By any thread.
 */
#ifndef FAN_NODE_SETTLE_H
#define FAN_NODE_SETTLE_H

#include <stdint.h>

struct fan_mounts;

/* Checks those records of one pack that an earlier job left (fan_mount_is_unchecked), and mends
 * them. Of the last: 0, its bytes may be read here; -EIO, it is damaged, or could not be read anew;
 * -ENODATA, a partial pack does not have it; -EBUSY, it is for later. */
int fan_settle(struct fan_mounts *mounts, uint32_t number, const uint64_t *records, uint64_t count);

/* Copies the stored bytes of a record from the shared file system to a local pack, piece by piece
 * until the node ends, and checks them there. 0, -EIO (twice wrong: it counts as damaged; or not to
 * be read), -ECANCELED or -errno. */
int fan_copy_and_check(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd);

#endif
