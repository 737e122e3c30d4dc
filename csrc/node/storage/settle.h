/*
 * An earlier job may have left packs on the local disk (--keep-staged). Their bytes may have rotted
 * since, or never have reached the disk. Each record of them is checked before it is served, and
 * brought anew from the shared file system where it is wrong. By any thread.
 */
#ifndef FAN_NODE_SETTLE_H
#define FAN_NODE_SETTLE_H

#include <stdint.h>

#include "../../common/index.h"

struct fan_mounts;

/* Checks those records of one pack that an earlier job left (fan_mount_is_unchecked), and mends
 * them. Of the last: 0, its bytes may be read here; -EIO, it is damaged, or could not be read anew;
 * -ENODATA, a partial pack does not have it; -EBUSY, it is for later. */
int fan_settle(struct fan_mounts *mounts, uint32_t number, const uint64_t *records, uint64_t count);

/* Locks or unlocks (fcntl's F_WRLCK, F_UNLCK) the bytes of a record in a local pack, against all
 * threads and jobs: what one of them writes there is not written over by another. 0 or -EBUSY. */
int fan_lock_record(const struct fan_record *record, int fd, short type);

/* Copies the stored bytes of a record from the shared file system to a local pack, piece by piece
 * until the node ends, and checks them there. 0, -EIO (twice wrong: it counts as damaged; or not to
 * be read), -ECANCELED or -errno. */
int fan_copy_and_check(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd);

#endif
