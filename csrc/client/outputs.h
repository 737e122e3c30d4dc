/*
 * Outputs: what is written under a mount. The node daemon knows their names (format/output_format.h);
 * their bytes are real files of this node, so that an output's descriptor is the kernel's own and
 * only noted in the file table. Each question is one connection: no state is shared between
 * threads, a fork child needs nothing, and signal handlers may ask.
 *
 * Everything here returns 0, a descriptor or -errno; -EIO when there is no daemon to ask.
 */
#ifndef FAN_CLIENT_OUTPUTS_H
#define FAN_CLIENT_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../format/output_format.h"
#include "resolve.h"

/* A question under construction: what is not set is 0. path, other: NUL-terminated, or NULL. */
struct fan_output_call {
    struct fan_output_request request; /* magic, lengths and counts are filled in */
    const char *path;
    const char *other;
    const uint64_t *objects;
};

/* Asks, and waits for the answer for a bounded time. text: room for what is not a listing,
 * terminated; may be NULL. 0, or -errno: the daemon's, or -EIO. */
int fan_output_ask(struct fan_output_call *call, struct fan_output_answer *answer,
                   char text[FAN_OUTPUT_PATH_MAX]);

/* A directory's outputs, as LIST's text in pages of its own: unmapped by the caller. */
struct fan_output_listing {
    char *text;
    size_t bytes;
    size_t room;
};
int fan_output_list(const struct fan_view *view, const char *path,
                    struct fan_output_listing *listing);
void fan_output_list_end(struct fan_output_listing *listing);

/* open(2) of a target that is FAN_BEYOND, or an output. `mode` before the umask. */
int fan_output_open(struct fan_target *target, int flags, unsigned mode);

/* After descriptors were closed or replaced: tells the daemon of those outputs that this thread's
 * last calls of fan_file_put let go of, and waits until all ranks see what is finished. errno is left
 * alone. Free when there are none. */
void fan_output_settle(void);

/* A last descriptor of a writable output is about to go (fan_file_put). */
void fan_output_let_go(uint64_t object);

/* Around the life of a process that has writable outputs; free when it has none. */
void fan_output_after_fork_child(void);
void fan_output_before_exec(void);
void fan_output_after_failed_exec(void);
void fan_output_adopted(uint64_t object);
void fan_output_at_exit(void);

/* Sets st from an output's attributes. */
void fan_output_stat(const struct fan_view *view, const struct fan_output_attr *attr,
                     struct stat *st);

#endif
