/*
 * The changes of names that clients make themselves (changes/change.h), as the node daemon lets
 * them and follows them: the thread that writes the segment alone.
 */
#ifndef FAN_NAMES_FOLLOW_H
#define FAN_NAMES_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "writer.h"

/* cffi: begin */
/* From now on clients may change names in the directories that were opened; until `hold` nothing
 * else of the segment may be written. */
void fan_names_let(struct fan_names_writer *writer);

/* Clients change nothing more until `let`, here or elsewhere, and what they did is in the log.
 * Waits for one that is doing so, a second at most: one that is killed or stopped there ends the
 * segment. Waits ten seconds at most for other ranks that make their changes. */
void fan_names_hold(struct fan_names_writer *writer);

/* Clients may change the names in a covered directory. */
void fan_names_open_directory(struct fan_names_writer *writer, uint32_t mount, const char *path,
                              uint32_t path_bytes);

/* Clients ask about all changes in a directory; to be called while they may change nothing. */
void fan_names_close_directory(struct fan_names_writer *writer, uint32_t mount, const char *path,
                               uint32_t path_bytes);

/* What was not followed yet: the length of that, and in `log` where it is. */
uint64_t fan_names_log(const struct fan_names_writer *writer, const char **log);

/* So many bytes of that are followed. */
void fan_names_followed(struct fan_names_writer *writer, uint64_t bytes);

/* From now on whoever makes a change writes to the pipe. false: there is something to follow. */
bool fan_names_sleep(struct fan_names_writer *writer);

/* Keeps clients from publishing an object that one of them created: the log says whether they have
 * done so. */
void fan_names_take_draft(struct fan_names_writer *writer, uint64_t object);

/* The same of a mapped segment whose daemon is gone. 0: there is nothing, or it is damaged. */
uint64_t fan_names_log_left(const void *base, uint64_t bytes, const char **log);
/* cffi: end */

#endif
