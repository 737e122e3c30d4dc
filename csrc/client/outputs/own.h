/*
 * Changes of outputs that this process makes itself (changes/change.h), or has the core of their
 * home make. Everything returns 0; FAN_NAMES_ASK with nothing done: the daemon is to be asked; or
 * -errno. As outputs.h, signal handlers and fork children may come here.
 */
#ifndef FAN_CLIENT_OWN_H
#define FAN_CLIENT_OWN_H

#include <sys/stat.h>

#include "../../common/names.h"
#include "../job/ask.h"
#include "../paths/resolve.h"

/* OPEN of a free name, to make a file and write it. `answer` (CREATE) and `text` as the daemon's.
 */
int fan_own_create(const struct fan_target *target, int flags, unsigned mode,
                   struct fan_output_answer *answer, char text[FAN_OUTPUT_PATH_MAX]);

/* SETTLE of one object. */
int fan_own_settle(uint64_t object);

/* MKDIR, UNLINK, RMDIR of a target that is FAN_BEYOND. `mode`: after the umask. */
int fan_own_change(const struct fan_target *target, enum fan_output_op op, unsigned mode);

/* RENAME of one such target to another. */
int fan_own_rename(const struct fan_target *from, const struct fan_target *to, unsigned flags);

/* CHANGE of one such target. */
int fan_own_alter(const struct fan_target *target, const struct fan_output_request *request);

/* The path of such a target that does not end in a slash. false: it has none in normal form. */
bool fan_own_path(const struct fan_target *target, struct fan_names_path *path);

/* What the attributes of a finished file are in the segment, but for its numbers. */
struct fan_output_attr fan_output_attr_of(const struct stat *st);

#endif
