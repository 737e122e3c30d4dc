/*
 * Reading what no rank has from the shared file system, and keeping what is of this rank's share: a
 * record is checked, written to its partial pack, and then it is here. What is read twice and is
 * not the content that the index speaks of is damaged. By any thread.
 */
#ifndef FAN_NODE_KEEP_H
#define FAN_NODE_KEEP_H

#include <stdint.h>

#include "share.h"

/* Bytes that are not right are read so often before their record counts as damaged. */
enum { FAN_KEEP_READINGS = 2 };

/* Brings a record that is wanted here (fan_share_wants). Its stored bytes in `stored`, the caller's
 * to free; NULL: it was here already. 0 (also where the disk takes no more), -EBUSY: another thread
 * is at it for too long, -EIO, -ENOMEM, -EMFILE. */
int fan_keep_record(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                    char **stored);

/* The bytes of a request of this node's own, whose record is kept where it is wanted. A record that
 * the request holds as a whole is checked. 0, -EIO, or -errno where this process lacks something.
 */
int fan_keep_and_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to);

/* The two below are for keep_run.c. Whether a record's stored bytes are right: 0, -EIO, or -errno.
 */
int fan_keep_check(const struct fan_node_mount *mount, uint64_t id, const char *bytes);

/* Enters what became of an attempt to write a record, found right, to its partial pack: rc, or
 * -ENOSPC where the disk takes no more. */
int fan_keep_note(struct fan_mounts *mounts, struct fan_node_mount *mount, uint64_t id, int rc);

#endif
