/*
 * Reads records that no rank has from the shared file system, and keeps those of this rank's share:
 * checks a record, writes it to its partial pack, and then marks it as resident. A record is
 * damaged if two readings both differ from the content that the index describes. Any thread may
 * call these.
 */
#pragma once

#include <stdint.h>

#include "../../local/sound.h"
#include "share.h"

/* How many wrong readings make a record count as damaged. */
enum { FAN_KEEP_READINGS = 2 };

/* Fetches a record that belongs here (fan_share_wants). Sets `stored` to its stored bytes, which
 * the caller frees, or to NULL if the record was here already. Returns 0 (also if the disk is
 * full), -EBUSY if another thread has worked on it for too long, -EIO, -ENOMEM, -EMFILE. */
int fan_keep_record(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                    char **stored);

/* Does what fan_keep_record does, in a thread that has begun the record (fan_partial_begin). */
int fan_keep_begun(struct fan_mounts *mounts, const struct fan_fetch_request *request,
                   char **stored);

/* Keeps a record that this rank need not keep, from the stored bytes that another rank sent, which
 * are checked. Does nothing if the record is here or another thread fetches it. Returns 0 or
 * -errno. */
int fan_keep_copy(struct fan_mounts *mounts, uint32_t mount, uint64_t id, const char *bytes);

/* Reads the bytes of one of this node's own requests, and keeps the record if it belongs here.
 * Checks the record if the request covers all of it. Returns 0, -EIO, or -errno if this process
 * lacks something. */
int fan_keep_and_read(struct fan_mounts *mounts, const struct fan_fetch_request *request, void *to);

/* keep_run.c and settle.c use this function and the next two. Checks stored bytes of a record that
 * were just read from the shared file system. For a record with an original, checks that the
 * original has not changed since the listing, and notes the checksum, with which the copy can be
 * checked later. Returns 0, -EIO, or -errno. */
int fan_keep_check_read(const struct fan_node_mount *mount, uint64_t id,
                        const struct fan_stored *stored);

/* Checks the stored bytes of a record that an earlier job kept. Returns as fan_keep_check_read. */
int fan_keep_check_kept(const struct fan_node_mount *mount, uint64_t id,
                        const struct fan_stored *stored);

/* Returns the record with the first name of a hard-linked file if `id` is a further one with the
 * same bytes; otherwise `id`. Nobody has checked the links of an index, hence this does. */
uint64_t fan_keep_first_name(const struct fan_node_mount *mount, uint64_t id);

/* Marks a further name of a file as resident if its first name is. Returns whether it did. */
bool fan_keep_as(struct fan_node_mount *mount, uint64_t id, uint64_t first);

/* Handles the result `rc` of writing a checked record to its partial pack. Returns rc, or -ENOSPC
 * if the disk is full. */
int fan_keep_note(struct fan_mounts *mounts, struct fan_node_mount *mount, uint64_t id, int rc);
