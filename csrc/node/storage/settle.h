/*
 * Checks packs that an earlier job left on the local disk (--keep-staged): bytes may have become
 * damaged since, or may never have reached the disk. Each record is checked before it is served,
 * and copied again from the shared file system if it is wrong. Any thread may call these functions.
 */
#pragma once

#include <stdint.h>

#include "../../common/index.h"

struct fan_mounts;

/* Checks the records of one pack that an earlier job left (fan_mount_is_unchecked), and repairs
 * them. Returns the result for the last one, whoever checked it: 0: its bytes may be read here;
 * -EIO: it is damaged, or could not be read again; -ENODATA: the partial pack does not have it;
 * -EBUSY: try again later. count: at least 1. */
int fan_settle(struct fan_mounts *mounts, uint32_t number, const uint64_t *records, uint64_t count);

/* Locks or unlocks (fcntl's F_WRLCK, F_UNLCK) the bytes of a record in a local pack, against all
 * threads and jobs, so that no two of them write the record at once. Returns 0 or -EBUSY. */
int fan_lock_record(const struct fan_record *record, int fd, short type);

/* Copies the stored bytes of a record from the shared file system to a local pack, piece by piece,
 * and checks them there. Returns 0, -EIO (wrong twice, so it counts as damaged; or unreadable),
 * -ECANCELED if the node ends meanwhile, or -errno. */
int fan_copy_and_check(struct fan_mounts *mounts, uint32_t number, uint64_t id, int fd);
