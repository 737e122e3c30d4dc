/*
 * Writing the names segment (format/names_format.h): one thread of the node daemon alone, which
 * owns it from fan_names_open to fan_names_close; where clients change names, too, only while they
 * are held (follow.h). Not reentrant.
 */
#ifndef FAN_NAMES_WRITER_H
#define FAN_NAMES_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "../format/output_format.h"

/* cffi: begin */
struct fan_names_writer;

/* Makes a segment of the empty file `fd`, which it closes, of `most_bytes` at the most. 0, or
 * -errno with everything undone. Room on the disk is taken as names come. */
int fan_names_open(int fd, uint32_t rank, uint32_t world_size, uint64_t most_bytes,
                   struct fan_names_writer **writer);

/* From now on clients ask the daemon. */
void fan_names_close(struct fan_names_writer *writer);

/* All names in a directory are here from now on, beginning with none; or none are. */
int fan_names_cover(struct fan_names_writer *writer, uint32_t mount, const char *path,
                    uint32_t path_bytes);
void fan_names_uncover(struct fan_names_writer *writer, uint32_t mount, const char *path,
                       uint32_t path_bytes);

/* What a name in a covered directory stands for: `attr`, or nothing (NULL), and `ask`, whether it
 * is being written. changed_ns: when the names of its directory changed. 0; -ENOSPC, -ENOMEM: the
 * directory is not covered any more, as there is no room. */
int fan_names_put(struct fan_names_writer *writer, uint32_t mount, const char *path,
                  uint32_t path_bytes, const struct fan_output_attr *attr, const char *target,
                  uint32_t target_bytes, bool ask, int64_t changed_ns);

/* When the names in a directory changed. */
void fan_names_changed(struct fan_names_writer *writer, uint32_t mount, const char *path,
                       uint32_t path_bytes, int64_t changed_ns);

/* While names are moved as a whole. */
void fan_names_freeze(struct fan_names_writer *writer, bool frozen);

/* A change was done that a client had announced. */
void fan_names_done(struct fan_names_writer *writer);

/* How many were announced so far; and, if none of those can come any more, that all are done. */
uint64_t fan_names_announced(const struct fan_names_writer *writer);
void fan_names_settle(struct fan_names_writer *writer, uint64_t announced);
/* cffi: end */

#endif
